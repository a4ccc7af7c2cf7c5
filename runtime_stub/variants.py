"""What a model's variants are, as Python values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

#: Guards reach up to here where there is no upper limit.
ANY = 2**63 - 1


class Variant(NamedTuple):  # a dataclass would make the import half as long again
    """One precompiled realisation of a model. `guards`: what the dims of the inputs must be, such as "batch=1"."""

    name: str
    target: str
    guards: tuple[str, ...]
    features: tuple[str, ...]
    workspace_bytes: int | None
    kernels: int | None

    def __str__(self) -> str:
        return f"{self.name} for {self.target}"


def describe(variant: Any, inputs: Sequence[Any], feature_names: Sequence[str], minor: int) -> Variant:
    """The value of an onnxc_variant of a model with these inputs (NodeArgs), whose ABI is of that minor version."""
    owners = [(arg.name, axis, dim) for arg in inputs for axis, dim in enumerate(arg.shape)]
    return Variant(
        variant.name.decode("utf-8", "surrogateescape"),
        variant.target.decode("utf-8", "surrogateescape"),
        tuple(_guard(variant.guards[i], owners) for i in range(variant.guard_count)),
        tuple(name for bit, name in enumerate(feature_names) if variant.features >> bit & 1),
        None if variant.workspace_bytes < 0 else variant.workspace_bytes,
        variant.kernel_count if minor >= 1 else None,
    )


def _guard(guard: Any, owners: Sequence[tuple[str, int, Any]]) -> str:
    """`batch=1`, `seq=1..512`, `h%32=0`; unnamed dims are INPUT.AXIS."""
    owner, axis, dim = owners[guard.dim]
    name = dim if isinstance(dim, str) else f"{owner}.{axis}"
    if guard.low == guard.high:
        return f"{name}={guard.low}"
    terms = [f"{name}%{guard.multiple}=0"] if guard.multiple > 1 else []
    if guard.high != ANY:
        terms.append(f"{name}={guard.low}..{guard.high}")
    elif guard.low > 0:
        terms.append(f"{name}>={guard.low}")
    return ",".join(terms) or f"any {name}"
