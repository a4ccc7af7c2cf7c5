"""The examples of docs/variants.md, run in order in one folder: each … stands for anything."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "variants.md"


def matches(shown: str, printed: str) -> bool:
    """A line of … alone is any number of lines, within a line it is any text."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else ".*".join(map(re.escape, re.split(" *… *", line))) + r"\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


def run(command: str, folder: Path) -> str:
    """What a person sees of a command, without what is only progress."""
    onnxc = f"{sys.executable} -m onnxc "
    line = re.sub(r"^onnxc ", lambda _: onnxc, command)
    done = subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True, timeout=600)
    told = [text for text in done.stderr.splitlines(True) if not text.startswith("compiling for")]
    return "".join(told) + done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="artefacts are ELF")
def test_examples(tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(digits, tmp_path)
    monkeypatch.chdir(tmp_path)
    for language, text in re.findall(r"^```(console|python)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(text, {})
            continue
        for example in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            printed = run(command, tmp_path)
            assert matches(shown, printed), f"$ {command}\n{printed}"
