"""The package list of pyproject.toml is complete, and the data files that commands need are in it."""

from __future__ import annotations

from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or later reads pyproject.toml")

TOP = Path(__file__).parents[2]
FOLDERS = {"onnxc": "compiler", "onnxc.dialects": "dialects", "onnxc.passes": "passes", "onnxc.runtime": "runtime_stub"}


@pytest.fixture
def setuptools() -> dict:
    return tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_folder_with_code_is_a_listed_package(setuptools: dict) -> None:
    found = set()
    for package, folder in FOLDERS.items():
        for init in (TOP / folder).rglob("__init__.py"):
            below = init.parent.relative_to(TOP / folder).parts
            found.add(".".join((package, *below)))
    assert sorted(setuptools["packages"]) == sorted(found)
    assert setuptools["package-dir"] == FOLDERS


def test_every_file_that_is_not_python_is_package_data(setuptools: dict) -> None:
    patterns = setuptools["package-data"]
    for package, folder in FOLDERS.items():
        for file in (TOP / folder).rglob("*"):
            if file.is_dir() or file.suffix in (".py", ".pyc") or "__pycache__" in file.parts:
                continue
            owner = ".".join((package, *file.parent.relative_to(TOP / folder).parts))
            assert any(file.match(pattern) for pattern in patterns.get(owner, ())), f"{file} would not be installed"
