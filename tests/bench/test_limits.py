"""The machine's limits are measured at all; nothing is said about how fast it is."""

from .limits import Limits


def test_limits_are_measured():
    limits = Limits()
    assert limits.multiply_adds(steps=1000) > 0
    assert limits.reading(1 << 16) > 0
    assert limits.copying(1 << 16) > 0
