"""Files that are not Python, such as the C stub, are installed, too; tests leave nothing to chance."""

from __future__ import annotations

import re
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


CHANCE = {
    r"\b(perf_counter|process_time|thread_time)\b": "how long it takes is the machine's; inject the times, or count calls",
    r"\bdefault_rng\(\)|\bnp\.random\.(rand|randn|random|randint)\b": "give it a seed",
    r"\bdeadline=|\.too_slow\b": "tests/conftest.py says how examples are drawn",
}


def test_no_test_judges_a_time_or_draws_without_a_seed() -> None:
    """They run beside others, on machines of any speed, and must not fail by chance. Benchmarks may do all of that."""
    for file in (TOP / "tests").rglob("test_*.py"):
        text = "" if file == Path(__file__) else file.read_text()
        for pattern, advice in CHANCE.items():
            found = re.search(pattern, text)
            assert found is None, f"{file}: {found[0]}: {advice}"
