"""The docs say what the code is: the code map has every file, cli.md every option, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from onnxc.cli import commands

TOP = Path(__file__).parents[2]
CODE = ("compiler", "dialects", "passes", "runtime_stub")
DOCS = sorted([*TOP.glob("*.md"), *(TOP / "docs").rglob("*.md")])


def test_architecture_names_every_file() -> None:
    text = (TOP / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([^`\s]+)`", text))
    files = [f for folder in CODE for f in (TOP / folder).rglob("*") if f.suffix in (".py", ".c", ".h")]
    missing = [str(f.relative_to(TOP)) for f in files if f.name != "__init__.py" and f.name not in named]
    assert not missing
    known = {f.name for f in files}
    gone = sorted(name for name in named if re.fullmatch(r"\w+\.(py|c|h)", name) and name not in known)
    assert not gone
    assert len(text.splitlines()) <= 150


def test_cli_page_names_every_option() -> None:
    text = (TOP / "docs" / "cli.md").read_text()
    for name, command in commands.commands.items():
        assert f"onnxc {name}" in text
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert f"`{max(parameter.opts, key=len)}" in text, f"{name}: {parameter.opts}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(TOP)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
