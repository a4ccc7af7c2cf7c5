# Shortcuts for developers, in the environment that `python` belongs to (pip install -e '.[dev]').
PYTHON ?= python

.PHONY: test nightly large lint format tree bench bindings docs help

test:      ## the tests that CI runs
	$(PYTHON) -m pytest -n 2

nightly:   ## all tests, the long ones too (the 2.3 GB model among them)
	$(PYTHON) -m pytest --nightly

large:     ## compiles a model of 2.3 GB and tells whether memory stayed within its bound
	$(PYTHON) -m pytest --nightly tests/models/test_large_model.py

lint: tree ## style, types, import directions, generated files
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m pyright --pythonpath "$$($(PYTHON) -c 'import sys; print(sys.executable)')"
	PYTHONPATH=build/tree $(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

tree:      ## links that show the packages in one tree, for tools that cannot see through pip's editable hook
	rm -rf build/tree && mkdir -p build/tree/onnxc
	cp -rs $(CURDIR)/compiler/. build/tree/onnxc/
	for part in dialects passes; do cp -rs $(CURDIR)/$$part build/tree/onnxc/; done
	cp -rs $(CURDIR)/runtime_stub build/tree/onnxc/runtime

bindings:  ## the ctypes structs of the runtime, from its C header
	$(PYTHON) runtime_stub/make_abi.py

bench:     ## the demo's model against onnxruntime; `onnxc bench MODEL --against onnxruntime` measures your own
	$(PYTHON) -m onnxc bench compiler/demo/digits.onnx --against onnxruntime --dim batch=64

docs:      ## the docs' claims about the code: code map, commands, links
	$(PYTHON) -m pytest tests/docs

help:
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 12
