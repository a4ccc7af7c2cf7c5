# Shortcuts for developers, in the environment that `python` belongs to (pip install -e '.[dev]').
PYTHON ?= python

.PHONY: test nightly large lint format bench bindings docs help

test:      ## the tests that CI runs
	$(PYTHON) -m pytest -n 2

nightly:   ## all tests, the long ones too (the 2.3 GB model among them)
	$(PYTHON) -m pytest --nightly

large:     ## compiles a model of 2.3 GB and tells whether memory stayed within its bound
	$(PYTHON) -m pytest --nightly tests/models/test_large_model.py

lint:      ## style, types, import directions
	.ci/lint $(PYTHON)

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bindings:  ## the ctypes structs of the runtime, from its C header
	$(PYTHON) runtime_stub/make_abi.py

MODELS ?= compiler/demo
bench:     ## every .onnx in MODELS (default: the demo's) against onnxruntime and OpenVINO, to bench.json; needs '.[bench]'
	$(PYTHON) -m tests.bench.suite $(MODELS) --json bench.json

docs:      ## the docs' claims about the code: code map, commands, links
	$(PYTHON) -m pytest tests/docs

help:
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## /\t/' | expand -t 12
