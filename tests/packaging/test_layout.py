"""Files that are not Python, such as the C stub, are installed, too."""

from __future__ import annotations

from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib", reason="Python 3.11 or later reads pyproject.toml")

TOP = Path(__file__).parents[2]
FOLDERS = {"onnxc": "compiler", "onnxc.dialects": "dialects", "onnxc.passes": "passes", "onnxc.runtime": "runtime_stub"}


def test_every_file_that_is_not_python_is_package_data() -> None:
    patterns = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package, folder in FOLDERS.items():
        for file in (TOP / folder).rglob("*"):
            if file.is_dir() or file.suffix in (".py", ".pyc") or "__pycache__" in file.parts:
                continue
            owner = ".".join((package, *file.parent.relative_to(TOP / folder).parts))
            assert any(file.match(pattern) for pattern in patterns.get(owner, ())), f"{file} would not be installed"


def test_every_folder_with_code_is_a_package() -> None:
    for folder in FOLDERS.values():
        for file in (TOP / folder).rglob("*.py"):
            assert (file.parent / "__init__.py").is_file(), f"{file} would not be installed"
