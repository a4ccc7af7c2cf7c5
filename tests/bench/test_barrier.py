"""The barrier's benchmark builds and reports every row that it explains; times are not judged."""

from __future__ import annotations

from pathlib import Path

from tests.bench import barrier


def test_every_row_is_measured(tmp_path: Path) -> None:
    rows = barrier.measured(barrier.build(tmp_path), "40")
    assert rows.keys() == barrier.MEANING.keys()
    assert all(0 < median <= p90 for median, p90 in rows.values())
