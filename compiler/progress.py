"""This file says what a compilation tells while it goes on; `terminal.py` shows it. It must not import rich."""

from __future__ import annotations


class Progress:
    """Receives what happens and shows nothing; the terminal's Progress overrides the methods it shows."""

    def stage(self, name: str, done: int = 0, total: int = 0, detail: str = "") -> None:
        """The work is now at `name`; of `total` steps (0: not known), `done` are done. `detail`: how it stands."""

    def note(self, line: str) -> None:
        """A line for those who asked for details (`-v`): a pass and its time, a cache hit …"""

    def say(self, line: str) -> None:
        """A line that everybody should read, such as what the artefact was compiled for."""


SILENT = Progress()
