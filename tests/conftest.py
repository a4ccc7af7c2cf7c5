"""What all tests share: the option that finds the models of other people, the mark of the long tests, and how examples
are drawn."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

TOP = Path(__file__).parent.parent
Once = Callable[[str, Callable[[Path], object]], Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    sibling = TOP.parent / "shared" / "corpus"
    parser.addoption(
        "--corpus", type=Path, default=sibling, metavar="DIR", help="where check_corpus.py and models/ lie"
    )
    parser.addoption("--nightly", action="store_true", help="run the tests that take minutes, too")


def pytest_configure(config: pytest.Config) -> None:
    """The same examples in every run, without a look at how long they take; others each night, where a failure is new
    knowledge and not a change's fault."""
    health = hypothesis.HealthCheck  # how long drawing takes is the machine's; fixtures are read only
    nightly = config.getoption("--nightly")
    hypothesis.settings.register_profile(
        "onnxc",
        derandomize=not nightly,
        deadline=None,
        database=None,
        suppress_health_check=[health.too_slow, health.function_scoped_fixture],
    )
    hypothesis.settings.load_profile("onnxc")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        skip = pytest.mark.skip(reason="takes minutes: --nightly")
        for item in items:
            if "nightly" in item.keywords:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def corpus(request: pytest.FixtureRequest) -> Path:
    """The corpus folder; skips the test where it is absent."""
    folder = request.config.getoption("--corpus")
    if not (folder / "models").is_dir():
        pytest.skip(f"no corpus at {folder} (--corpus DIR)")
    return folder


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """`once("name", make)`: a folder that `make(folder)` has filled, once a test run, by the process that is first."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    def filled(name: str, make: Callable[[Path], object]) -> Path:
        folder, whole = shared / name, shared / f"{name} is whole"
        with (shared / f"{name} lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not whole.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                whole.touch()
        return folder

    return filled


@pytest.fixture(scope="session")
def digits() -> Path:
    """The demo's model, the smallest real one that is always at hand."""
    return TOP / "compiler" / "demo" / "digits.onnx"
