"""What happens to code in a fork of its own: answers, exceptions, crashes, endless loops."""

from __future__ import annotations

import ctypes
import os
import resource
import selectors
import signal
from pathlib import Path

import pytest

from onnxc.runtime import isolated as isolating
from onnxc.runtime.isolated import Failed, isolated
from onnxc.runtime.watched import Watched

ENOUGH = 300.0  # seconds, of any machine


def test_answers() -> None:
    assert isolated(lambda: {"ns": [1.5, 2]}, ENOUGH) == {"ns": [1.5, 2]}
    assert isolated(lambda: "x" * 300_000, ENOUGH) == "x" * 300_000


def test_nothing_of_it_stays() -> None:
    here: list[int] = []
    assert isolated(lambda: here.append(os.getpid()) or len(here), ENOUGH) == 1
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
        isolated(work, ENOUGH)


def test_hanging_ends() -> None:
    """What would go on for ever, at work or waiting."""
    before = children()
    for hang in (lambda: [None for _ in iter(int, 1)], lambda: signal.sigwait([])):
        with pytest.raises(Failed, match=r"took more than 0.2 s"):
            isolated(hang, 0.2)
        assert children() <= before


@pytest.mark.parametrize(("steps", "enough"), [(3, True), (4, False)])
def test_time_in_which_all_is_stopped_is_a_step(monkeypatch: pytest.MonkeyPatch, steps: int, enough: bool) -> None:
    """However long it was: a system that sleeps has stopped both sides."""
    asked = []

    class Selector(selectors.PollSelector):
        def select(self, timeout: float | None = None) -> list:
            asked.append(timeout)
            return super().select() if len(asked) > steps else []

    monkeypatch.setattr(isolating.selectors, "PollSelector", Selector)
    if not enough:
        with pytest.raises(Failed, match="took more than 1.8 s"):
            isolated(lambda: 4, 1.8)
        assert asked == [0.5, 0.5, 0.5, pytest.approx(0.3)]
    else:
        assert isolated(lambda: 4, 1.8) == 4


def children() -> set[str]:
    return {*Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def test_with_many_open_files() -> None:
    """More than select() can wait for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1200:
        pytest.skip("no process may open so many files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        assert isolated(lambda: 3, ENOUGH) == 3
        watched = Watched(("sh", "-c", 'read -r line; echo "{\\"done\\": true}"'), ENOUGH)
        assert watched.measure(Path()) == []
        watched.close()
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
