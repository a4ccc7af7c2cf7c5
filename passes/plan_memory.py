"""kernels -> kernels: every tensor that a call makes gets its place.

Before:  %1 = "kernel.call"(%x, %w) {callee = @k_…}
After:   %1 = "kernel.call"(%x, %w) {callee = @k_…, places = ["workspace 4096"]}
A place is "output I" (the model's output buffer), "workspace OFFSET" (bytes, a dim expression over the input dims) or
"arena" (its size is known only in the course of the run). `main` gets `workspace = "BYTES"`.
Two tensors share bytes only if the one's last use comes before the other's definition. Everything is 64-byte aligned.
Keeps:   everything else.

Offsets are given by best fit over live ranges, the largest tensors first; sizes that are dims share slots where one is
provably no larger than the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import KERNELS
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.scalars import byte_width

ALIGNMENT = 64
REGION_OPS = ("onnx.If", "onnx.Loop", "onnx.Scan")


@dataclass
class Storage:
    """One buffer: the values that lie in it and the span of positions in which it is in use."""

    size: dims.Dim
    birth: int
    death: int
    values: list[ir.Value] = field(default_factory=list)
    place: str = ""


@transforms(KERNELS, KERNELS)
def plan_memory(program: Program) -> None:
    """See the file's docstring."""
    main = next(f for f in program.module.body.operations if "kernel.kind" not in f.attributes)
    plan = _Liveness(main)
    fixed = [s for s in plan.storages if not s.place and isinstance(s.size, int)]
    symbolic = [s for s in plan.storages if not s.place and not isinstance(s.size, int)]
    total: dims.Dim = _place_fixed(fixed)
    total = _place_symbolic(symbolic, total)
    for storage in plan.storages:
        for v in storage.values:
            _record(v, storage.place)
    main.attributes["workspace"] = ir.StringAttr.get(str(total))
    lower = _lower_bound(fixed)
    program.log.append(("plan_memory", f"workspace {total} bytes; static part's lower bound {lower}"))


def _record(v: ir.Value, place: str) -> None:
    op = v.owner.operation
    places = [ir.StringAttr(a).value for a in op.attributes["places"]] if "places" in op.attributes else [""] * len(op.results)
    places[ir.OpResult(v).result_number] = place
    op.attributes["places"] = ir.ArrayAttr.get([ir.StringAttr.get(p) for p in places])


def byte_size(tensor: Tensor) -> dims.Dim:
    """Bytes of a tensor, rounded up to the alignment."""
    exact = tensor.numel * byte_width(tensor.elem)
    return (exact + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


class Joint:
    """The storages that a value may lie in, depending on the branch taken."""

    def __init__(self, parts: list[Storage | Joint]):
        self.parts: list[Storage] = []
        for p in parts:
            self.parts += p.parts if isinstance(p, Joint) else [p]


class _Liveness:
    """Walks main once and finds the storages."""

    def __init__(self, main: ir.Operation):
        self.storages: list[Storage] = []
        self.position = 0
        self.roots: dict[ir.Value, Storage | Joint | None] = {}
        entry = main.regions[0].blocks[0]
        self.known = {s for a in entry.arguments for d in Tensor.of(a.type).dims for s in dims.symbols(d)}
        self._walk(entry)
        self._outputs(entry)

    def _walk(self, block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            self.position += 1
            for operand in op.operands:
                self._use(operand)
            if op.name in ("kernel.call", "kernel.scratch"):
                for r in op.results:
                    self._define(r)
            elif op.name == "kernel.view":
                self.roots[op.results[0]] = self.roots.get(op.operands[0])
            elif op.name in REGION_OPS:
                self._region_op(op)

    def _region_op(self, op: ir.Operation) -> None:
        start = self.position
        used_before = len(self.storages)
        for region in op.regions:
            self._walk(region.blocks[0])
        self.position += 1
        if op.name != "onnx.If":  # what is used in a loop is used until its end
            for storage in self.storages[:used_before]:
                if storage.death >= start:  # the first trip reads the initial values where they lie
                    storage.death = self.position
        self._yielded(op)

    def _yielded(self, op: ir.Operation) -> None:
        """An If's result lies where its branches put it; a loop's results lie in the arena."""
        for i, result in enumerate(op.results):
            if op.name != "onnx.If":
                self.roots[result] = None
                continue
            parts = []
            for region in op.regions:
                body = region.blocks[0].operations
                v = body[len(body) - 1].operands[i]
                parts.append(self.roots.get(v))
            self.roots[result] = Joint([p for p in parts if p is not None])

    def _define(self, r: ir.Value) -> None:
        tensor = Tensor.of(r.type)
        size = byte_size(tensor)
        storage = Storage(size, self.position, self.position, [r])
        if not set(dims.symbols(size)) <= self.known:
            storage.place = "arena"
        self.storages.append(storage)
        self.roots[r] = storage

    def _use(self, v: ir.Value) -> None:
        root = self.roots.get(v)
        for storage in root.parts if isinstance(root, Joint) else [root] if root else []:
            storage.death = max(storage.death, self.position)

    def _outputs(self, entry: ir.Block) -> None:
        """A value that is one output of the model, made by a call in main itself, is written there directly."""
        returned = entry.operations[len(entry.operations) - 1].operands
        roots = [self.roots.get(v) for v in returned]
        for i, storage in enumerate(roots):
            if not isinstance(storage, Storage) or sum(r is storage for r in roots) > 1:
                continue
            if storage.place or storage.values[0].owner.operation.block != entry:
                continue
            storage.place = f"output {i}"


def _overlap(a: Storage, b: Storage) -> bool:
    return a.birth <= b.death and b.birth <= a.death


def _place_fixed(storages: list[Storage]) -> int:
    """Offsets of sizes that are numbers: largest first, each at the lowest gap among the placed ones that it meets."""
    placed: list[tuple[int, Storage]] = []
    total = 0
    for storage in sorted(storages, key=lambda s: (-s.size, s.birth)):
        offset = 0
        for start, other in sorted(((o, s) for o, s in placed if _overlap(s, storage)), key=lambda p: p[0]):
            if start - offset >= storage.size:
                break
            offset = max(offset, start + other.size)
        placed.append((offset, storage))
        storage.place = f"workspace {offset}"
        total = max(total, offset + storage.size)
    return total


def _place_symbolic(storages: list[Storage], base: dims.Dim) -> dims.Dim:
    """Slots behind the fixed part; a slot is as large as the largest tensor in it."""
    slots: list[tuple[dims.Dim, list[Storage]]] = []
    for storage in storages:
        for i, (size, users) in enumerate(slots):
            if any(_overlap(storage, user) for user in users):
                continue
            if dims.at_least(size, storage.size) or dims.at_least(storage.size, size):
                larger = size if dims.at_least(size, storage.size) else storage.size
                slots[i] = (larger, [*users, storage])
                break
        else:
            slots.append((storage.size, [storage]))
    for size, users in slots:
        for storage in users:
            storage.place = f"workspace {base}"
        base = base + size
    return base


def _lower_bound(storages: list[Storage]) -> int:
    """The most bytes live at one position."""
    events = sorted([(s.birth, s.size) for s in storages] + [(s.death + 1, -s.size) for s in storages])
    live = most = 0
    for _, change in events:
        live += change
        most = max(most, live)
    return most
