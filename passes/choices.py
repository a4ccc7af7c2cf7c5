"""What was found to be better than the heuristics: the interface through which passes ask for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Choices:
    """Knows nothing; tuning records and the tuner know better. Signatures: see signatures.py."""

    def schedule(self, signature: str) -> Mapping[str, int | str] | None:
        """The schedule of the kernel with this signature, where one is known."""
        return None

    def algorithm(self, signature: str) -> str | None:
        """The algorithm of the convolution with this signature, where one is known."""
        return None

    def fusion(self, signature: str) -> Sequence[int] | None:
        """The operators after which the kernel with this signature falls apart, where that is known; (): nowhere."""
        return None

    def turns(self, signature: str) -> Sequence[int] | None:
        """The kernels after which the chain with this signature (row_turns.py) falls apart; (): all take turns."""
        return None

    def gain(self, signature: str) -> float | None:
        """How many times as fast as the heuristic's the algorithm for this signature is, where that was measured."""
        return None

    def times(self, signature: str) -> Mapping[str, float]:
        """Nanoseconds that algorithms were measured to take for the convolution with this signature."""
        return {}

    def origin(self, signature: str, what: str) -> str:
        """Where the choice of this kind ("schedule", …) stands, for messages: `records.jsonl:3`."""
        return "a choice"

    def nearest(self, signature: str) -> str | None:
        """The known signature that is most like this one, which is not known itself."""
        return None
