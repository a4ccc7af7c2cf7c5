"""The program builds and reports every way of waking; where threads wake is not judged, but barred is barred."""

from __future__ import annotations

import os
from pathlib import Path

from tests.bench import wakeups


def test_every_way_is_measured(tmp_path: Path) -> None:
    rows = wakeups.measured(wakeups.build(tmp_path), 20)
    assert rows.keys() == wakeups.MEANING.keys()
    assert all(row.rounds == 20 and 0 <= row.same <= 20 and 0 < row.median <= row.most for row in rows.values())
    if len(os.sched_getaffinity(0)) > 1:
        assert rows["barred"].same < 20
