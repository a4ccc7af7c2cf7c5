"""This file ends work that has no time left: a step of a compilation is the longest that it goes on."""

from __future__ import annotations

import time

from onnxc.progress import Progress


class TimeIsUp(Exception):
    """Work was left unfinished; what it was for is to be done without."""


class TimeLimit(Progress):
    """Given to a compilation in place of something to tell progress to: raises TimeIsUp once it is later than `until`
    (of time.monotonic)."""

    def __init__(self, until: float) -> None:
        self.until = until

    def stage(self, name: str, done: int = 0, total: int = 0, detail: str = "") -> None:
        self.check()

    def note(self, line: str) -> None:
        self.check()

    def check(self) -> None:
        if time.monotonic() > self.until:
            raise TimeIsUp
