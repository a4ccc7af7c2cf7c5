"""What all tests share: the option that finds the models of other people, and the mark of the long tests."""

from __future__ import annotations

from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--corpus", type=Path, default=TOP.parent / "shared" / "corpus", metavar="DIR",
                     help="folder with check_corpus.py and models/; tests that need it skip where it is absent")  # fmt: skip
    parser.addoption("--nightly", action="store_true", help="run the tests that take minutes, too")


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
def digits() -> Path:
    """The demo's model, the smallest real one that is always at hand."""
    return TOP / "compiler" / "demo" / "digits.onnx"
