"""What the realisations of one artefact have in common: the places of weights, the kernels' names, the errors.

A program compiled alone has parts of its own. Programs that are given the same `Parts` one after another (variants by
shape, instruction sets) refer to one copy of each weight, one kernel of each text, one table of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxc.passes.kernels.packing import Packing

ALIGNMENT = 64


@dataclass
class Parts:
    """Filled by the passes, in the order of the programs; read by whoever packs the artefact.

    weights   (key in the weight store, or an array; byte offset), ascending
    errors    the message of error k at index k - 1
    """

    weights: list[tuple[Any, int]] = field(default_factory=list)
    weight_bytes: int = 0
    errors: list[str] = field(default_factory=list)
    _offsets: dict[str, int] = field(default_factory=dict)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _twins: dict[str, int] = field(default_factory=dict)
    _panels: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    _transforms: dict[str, list[str]] = field(default_factory=dict)

    def place_weight(self, identity: str, entry: Any, size: int) -> int:
        """The offset of a weight, the same for the same identity; new ones come behind the others, aligned."""
        if identity not in self._offsets:
            self._offsets[identity] = self.weight_bytes
            self.weights.append((entry, self.weight_bytes))
            self.weight_bytes += -(-size // ALIGNMENT) * ALIGNMENT
        return self._offsets[identity]

    def kernel_name(self, wanted: str, text: str, target: str) -> str:
        """The symbol of the kernel of this text for this target: `wanted`, with a number if another kernel has that."""
        if (text, target) not in self._names:
            count = self._twins[wanted] = self._twins.get(wanted, -1) + 1
            self._names[text, target] = f"{wanted}_{count}" if count else wanted
        return self._names[text, target]

    def note_packing(self, weight: str, packing: Packing) -> None:
        """A weight of this key lies in panels."""
        widths = self._panels.setdefault((weight, packing.family), [])
        if packing.panel and packing.panel not in widths:
            widths.append(packing.panel)

    def note_transform(self, weight: str, name: str) -> None:
        """A program reads the weight of this key in another form: "winograd4", say."""
        names = self._transforms.setdefault(weight, [])
        if name not in names:
            names.append(name)

    def transforms(self, weight: str) -> Sequence[str]:
        """The forms that programs read the weight in, but for its own."""
        return self._transforms.get(weight, ())

    @property
    def has_panels(self) -> bool:
        """Whether a program has been here before."""
        return bool(self._panels)

    def panels(self, weight: str, packing: Packing) -> list[int]:
        """The widths of panels that the weight lies in already, in layouts of the same family."""
        return self._panels.get((weight, packing.family), [])
