"""What all tests share: the option that finds the models of other people, and the mark of the long tests."""

from __future__ import annotations

from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    sibling = TOP.parent / "shared" / "corpus"
    parser.addoption(
        "--corpus", type=Path, default=sibling, metavar="DIR", help="where check_corpus.py and models/ lie"
    )
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
