"""What happens to code in a fork of its own: answers, exceptions, crashes, endless loops."""

from __future__ import annotations

import ctypes
import os
import resource
import time
from pathlib import Path

import pytest

from onnxc.runtime.isolated import Failed, isolated
from onnxc.runtime.watched import Watched


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


def test_with_many_open_files() -> None:
    """More than select() can wait for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("no process may open so many files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert isolated(lambda: 3, 10) == 3
        watched = Watched(("sh", "-c", 'read -r line; echo "{\\"done\\": true}"'))
        assert watched.measure(Path()) == []
        watched.close()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
