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
    """Each folder has a paragraph that begins with its name in bold, and names the folder's files and no others."""
    text = (TOP / "docs" / "architecture.md").read_text()
    assert len(text.splitlines()) <= 150
    code_map = text[text.index("## Code map") : text.index("## Invariants")]
    parts = re.split(r"^\*\*`([\w/]+)/`\*\*", code_map, flags=re.MULTILINE)
    named = {
        folder: set(re.findall(r"`(\w+\.(?:py|c|h))`", part))
        for folder, part in zip(parts[1::2], parts[2::2], strict=True)
    }
    found: dict[str, set[str]] = {}
    for folder in CODE:
        for file in (TOP / folder).rglob("*"):
            if file.suffix in (".py", ".c", ".h") and file.name != "__init__.py":
                found.setdefault(str(file.parent.relative_to(TOP)), set()).add(file.name)
    wrong = {folder: named.get(folder, set()) ^ found.get(folder, set()) for folder in {*named, *found}}
    assert not {folder: sorted(names) for folder, names in wrong.items() if names}


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
