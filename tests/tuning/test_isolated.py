"""What happens to code in a fork of its own: answers, exceptions, crashes, endless loops."""

from __future__ import annotations

import ctypes
import os
import time

import pytest

from onnxc.runtime.isolated import Failed, isolated


def test_answers() -> None:
    assert isolated(lambda: {"ns": [1.5, 2]}, 10) == {"ns": [1.5, 2]}
    assert isolated(lambda: "x" * 300_000, 10) == "x" * 300_000


def test_nothing_of_it_stays() -> None:
    here: list[int] = []
    assert isolated(lambda: here.append(os.getpid()) or len(here), 10) == 1
    assert here == []


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (lambda: ctypes.string_at(0), "ended by SIGSEGV"),
        (lambda: os.abort(), "ended by SIGABRT"),
        (lambda: os._exit(3), "left with status 3"),
        (lambda: 1 // 0, "ZeroDivisionError: .* by zero"),
    ],
)
def test_ends(work, told: str) -> None:
    with pytest.raises(Failed, match=told):
        isolated(work, 10)


def test_hanging_ends() -> None:
    start = time.monotonic()
    with pytest.raises(Failed, match=r"took more than 0.2 s"):
        isolated(lambda: time.sleep(60), 0.2)
    assert time.monotonic() - start < 10
