"""This file is what a shape function sees (`ShapeContext`) and where it registers (`infers`, `evaluates`).

It knows nothing of IR: the pass that runs shape functions gives types, values and attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim, Expr
from onnxc.dialects.shapes.reals import Number, Real
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.dialects.types import ONNX_ELEMENTS, Tensor

Infer = Callable[["ShapeContext"], list[Tensor]]
Evaluate = Callable[["ShapeContext"], "list[list[Number] | None] | None"]

INFER: dict[str, Infer] = {}
EVALUATE: dict[str, Evaluate] = {}


def infers(*names: str) -> Callable[[Infer], Infer]:
    """Registers a function that gives the result types of these operators."""

    def register(function: Infer) -> Infer:
        INFER.update(dict.fromkeys(names, function))
        return function

    return register


def evaluates(*names: str) -> Callable[[Evaluate], Evaluate]:
    """Registers a function that gives the elements of small results; None where they are not known."""

    def register(function: Evaluate) -> Evaluate:
        EVALUATE.update(dict.fromkeys(names, function))
        return function

    return register


class NeedsValues(Exception):
    """The shape depends on the elements of operand `index`, which are not known symbolically.

    `sizes`: the elements are sizes, at least 0.
    """

    def __init__(self, index: int, *, sizes: bool = False) -> None:
        super().__init__(index)
        self.index = index
        self.sizes = sizes


class UnknownRank(Exception):
    """The rank of a result is not known; `why` says what it hangs on."""


class UnknownOperandRank(UnknownRank):
    """The rank of an operand is not known: the cause is another node."""


class IllegalShape(Exception):
    """The operator does not allow these types."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint


class ShapeContext:
    """One node, as its shape function sees it. Operands are counted from 0; an absent one has no type."""

    def __init__(
        self,
        name: str,
        types: Sequence[Tensor | None],
        known: Callable[[int], Sequence[Number] | None],
        attr: Callable[[str, Any], Any],
        results: int,
        fresh: Callable[[str], Expr],
        declared: Sequence[Tensor | None] = (),
        recorded: Container[int] = (),
        sizes: Container[Dim] = (),
    ) -> None:
        self.name = name
        self.types = types
        self.attr = attr
        self.results = results
        self.fresh = fresh  # the symbol for an unknown size of this node; the key tells several apart
        self.declared = declared  # what the model says of the results: a hint
        self.needed: dict[int, tuple[Dim, ...]] = {}  # operands whose elements the shape function has read
        self._known = known
        self.requirements: list[Requirement] = []  # what must hold at run time
        self.told: dict[int, tuple[Dim, ...]] = {}  # shapes of operands as far as the other operands tell
        self._recorded = recorded
        self._sizes = sizes

    def recorded(self, index: int) -> bool:
        """Whether only the elements of operand `index` are left, recorded by an earlier inference."""
        return index in self._recorded

    def has(self, index: int) -> bool:
        """Whether operand `index` is given."""
        return index < len(self.types) and self.types[index] is not None

    def type(self, index: int) -> Tensor | None:
        """The type of operand `index`, None if it is absent."""
        return self.types[index] if index < len(self.types) else None

    def tensor(self, index: int) -> Tensor:
        """The type of operand `index`, which must be given and have a known rank."""
        found = self.type(index)
        if found is None:
            raise IllegalShape(f"operand {index} is missing")
        if found.shape is None:
            raise UnknownOperandRank(f"the rank of operand {index} is not known")
        return found

    def shape(self, index: int) -> tuple[Dim, ...]:
        """The shape of operand `index`."""
        return self.tensor(index).dims

    def elem(self, index: int) -> str:
        """The element type of operand `index`."""
        found = self.type(index)
        if found is None:
            raise IllegalShape(f"operand {index} is missing")
        return found.elem

    def known(self, index: int) -> Sequence[Number] | None:
        """The elements of operand `index` if they are known; asking leaves no trace."""
        return self._known(index) if self.has(index) else None

    def values(self, index: int, *, sizes: bool = False) -> tuple[Dim, ...]:
        """The elements of an operand of integers. Kernels will get them as scalars instead of the operand."""
        found = self.known(index)
        if found is None:
            raise NeedsValues(index, sizes=sizes)
        integers = tuple(value for value in found if not isinstance(value, Real))
        if len(integers) != len(found):
            raise NeedsValues(index, sizes=sizes)
        self.needed[index] = integers
        return integers

    def element(self, attribute: str, default: int = 0) -> str:
        """The element type that an attribute gives by ONNX's number."""
        number = self.attr(attribute, None) or default
        if number not in ONNX_ELEMENTS:
            raise IllegalShape(f"{attribute} is {number}, no element type of ONNX's")
        return ONNX_ELEMENTS[number]

    def sizes(self, index: int) -> tuple[Dim, ...]:
        """Like `values`, of an operand whose elements are sizes (at least 0)."""
        return self.values(index, sizes=True)

    def constants(self, index: int, what: str) -> list[int]:
        """Like `values`, where run-time values would leave the rank unknown or are not supported."""
        found = self.known(index)
        if found is None:
            raise UnknownRank(f"its {what} are computed at run time")
        constants = [value for value in found if isinstance(value, int)]
        if len(constants) != len(found):
            raise IllegalShape(f"its {what} depend on sizes that are known at run time only")
        self.needed[index] = tuple(constants)
        return constants

    def axis(self, value: int, rank: int, what: str = "axis") -> int:
        """`value` counted from 0; refused if it is not an axis of a tensor of this rank."""
        if not -rank <= value < rank:
            raise IllegalShape(f"{what} {value} is not an axis of a rank-{rank} tensor")
        return value + rank if value < 0 else value

    def axes(self, values: Sequence[int], rank: int) -> list[int]:
        """The same for several axes, which must be distinct."""
        found = [self.axis(value, rank) for value in values]
        if len(set(found)) != len(found):
            raise IllegalShape(f"the same axis occurs twice in {list(values)}")
        return found

    def ranked(self, index: int, *ranks: int) -> tuple[Dim, ...]:
        """The shape of operand `index`, whose rank must be one of `ranks`."""
        shape = self.shape(index)
        if len(shape) not in ranks:
            wanted = " or ".join(map(str, ranks))
            raise IllegalShape(f"operand {index} must have rank {wanted}, not {len(shape)}")
        return shape

    def require(self, kind: str, a: Dim, b: Dim, what: str) -> None:
        """`a kind b` must hold (see `Requirement`): refused if it cannot, noted if it is not known."""
        requirement = Requirement(kind, a, b, what)
        holds = requirement.holds()
        if holds is False:
            raise IllegalShape(str(requirement))
        if holds is None:
            self.requirements.append(requirement)

    def same(self, a: Dim, b: Dim, what: str) -> Dim:
        """The dim that `a` and `b` both are; a number is preferred."""
        if a is b or a == b:
            return a
        self.require("==", a, b, what)
        return b if isinstance(b, int) else a

    def same_size(self, index: int, axis: int, size: Dim, what: str) -> None:
        """`size` is that of operand `index` along `axis`, and tells it where the operand's type does not."""
        shape = self.shape(index)
        known = self.same(shape[axis], size, what)
        if isinstance(known, int) and not isinstance(shape[axis], int):
            self.told[index] = (*shape[:axis], known, *shape[axis + 1 :])

    def divides(self, whole: Dim, part: int, what: str) -> Dim:
        """`whole / part`, which must have no remainder."""
        self.require("==", dims.mod(whole, part), 0, f"the remainder of {what} by {part}")
        return dims.floordiv(whole, part)

    def is_size(self, value: Dim) -> bool:
        """Whether `value` is at least 0: provably, or because it is a dim of some tensor."""
        return value in self._sizes or dims.nonnegative(value)
