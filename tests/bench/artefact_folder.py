"""Where a measuring program keeps what it has compiled: a folder that is given, or one for as long as it runs."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--folder` and `--prepare`."""
    parser.add_argument("--folder", type=Path, help="where artefacts are kept")
    parser.add_argument("--prepare", action="store_true", help="compile only")


@contextmanager
def artefact_folder(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Iterator[Path]:
    """The folder, which is there then; a usage error where it is to be prepared and none is given."""
    if given.prepare and not given.folder:
        parser.error("--prepare needs --folder")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
