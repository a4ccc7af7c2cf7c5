"""kernels -> kernels: every tensor that a call makes gets its place.

Before:  %1 = "kernel.call"(%x, %w) {callee = @k_…}
After:   %1 = "kernel.call"(%x, %w) {callee = @k_…, places = ["workspace 4096"]}
A place is "output I" (the model's output buffer), "workspace OFFSET" (bytes, a dim expression over the input dims) or
"arena" (its size is known only in the course of the run). `main` gets `workspace = "BYTES"`. The parts of a kernel.join
have places inside the joined tensor's ("output I OFFSET" in an output), which is in use from its first part on.
Two tensors share bytes only if the one's last use comes before the other's definition; a use of a view, of an If's
result or of a loop's result is a use of what may lie under it. Everything is 64-byte aligned.
`notes["memory"]`: the workspace's bytes, those that are known, and the lower bound of these.
Keeps:   everything else.

Which bytes: workspace.py.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import KERNELS
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.scalars import byte_width
from onnxc.passes.rewriting import main_function
from onnxc.passes.workspace import Storage, lower_bound, place

ALIGNMENT = 64


@transforms(KERNELS, KERNELS)
def plan_memory(program: Program) -> None:
    """See the file's docstring."""
    main = main_function(program.module)
    liveness = _Liveness(main)
    fixed, total = place(liveness.storages)
    for storage in liveness.storages:
        _record(storage.value, storage.place)
    for part, (joined, offset) in liveness.parts.items():
        _record(part, _inside(liveness.roots[joined][0].place, offset))
    main.attributes["workspace"] = ir.StringAttr.get(str(total))
    inside = [s for s in liveness.storages if s.place.startswith("workspace")]
    lower = lower_bound([s for s in inside if isinstance(s.size, int)])
    program.notes["memory"] = {
        "workspace": total if isinstance(total, int) else str(total),
        "static": fixed,
        "lower_bound": lower,
    }
    program.log.append(("plan_memory", f"workspace {total} bytes, {fixed} static (lower bound {lower})"))


def _record(v: ir.Value, place: str) -> None:
    op = v.owner.operation
    known = op.attributes["places"] if "places" in op.attributes else [ir.StringAttr.get("")] * len(op.results)
    places = list(known)
    places[ir.OpResult(v).result_number] = ir.StringAttr.get(place)
    op.attributes["places"] = ir.ArrayAttr.get(places)


def _inside(place: str, offset: int) -> str:
    """The place so many bytes behind the beginning of another."""
    kind, where = place.split(" ")
    return f"{kind} {dims.parse(where) + offset}" if kind == "workspace" else f"{place} {offset}"


def byte_size(tensor: Tensor) -> dims.Dim:
    """Bytes of a tensor, rounded up to the alignment; never negative, so that an illegal dim cannot make slots meet."""
    exact = tensor.numel * byte_width(tensor.elem)
    if not dims.nonnegative(exact):
        exact = dims.max(exact, 0)
    return (exact + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


Roots = tuple[Storage, ...]  # what a value may lie in: one storage, one a branch, or none (inputs, weights, the arena)


class _Liveness:
    """Walks main once and finds the storages."""

    def __init__(self, main: ir.Operation):
        self.storages: list[Storage] = []
        self.position = 0
        self.roots: dict[ir.Value, Roots] = {}
        self.parts: dict[ir.Value, tuple[ir.Value, int]] = {}  # of joined tensors, and the bytes before them there
        entry = main.regions[0].blocks[0]
        self.known = {s for a in entry.arguments for d in Tensor.of(a.type).dims for s in dims.symbols(d)}
        self._walk(entry)
        self._outputs(entry)

    def _walk(self, block: ir.Block) -> None:
        self.parts.update(_parts(block))
        for view in block.operations:
            op = view.operation
            self.position += 1
            for operand in op.operands:
                for storage in self.roots.get(operand, ()):
                    storage.death = self.position
            if op.name in ("kernel.call", "kernel.bands", "kernel.scratch"):
                for r in op.results:
                    self._define(r)
            elif op.name == "kernel.view":
                self.roots[op.results[0]] = self.roots.get(op.operands[0], ())
            elif op.name == "onnx.If":
                self._if(op)
            elif op.name == "onnx.Loop":
                self._loop(op)

    def _define(self, r: ir.Value) -> None:
        if r in self.parts:
            joined, _ = self.parts[r]
            if joined not in self.roots:
                self._define(joined)
            self.roots[r] = self.roots[joined]
            return
        storage = Storage(r, byte_size(Tensor.of(r.type)), self.position, self.position)
        storage.scratch = r.owner.name == "kernel.scratch"
        if not dims.symbols(storage.size) <= self.known:
            storage.place = "arena"
        self.storages.append(storage)
        self.roots[r] = (storage,)

    def _if(self, op: ir.Operation) -> None:
        """A result lies where the branch taken put it."""
        for region in op.regions:
            self._walk(region.blocks[0])
        yields = [_terminator(region.blocks[0]).operands for region in op.regions]
        for result, *sources in zip(op.results, *yields, strict=True):
            self.roots[result] = tuple(storage for v in sources for storage in self.roots.get(v, ()))

    def _loop(self, op: ir.Operation) -> None:
        """What is used in a loop is used until its end. Carried tensors lie where the initial ones do (in the first
        trip, and in all where the body passes them on; so do results where there is no trip) or in the arena."""
        start, before = self.position, len(self.storages)
        body = op.regions[0].blocks[0]
        initial = [self.roots.get(v, ()) for v in list(op.operands)[2:]]
        self.roots.update(zip(list(body.arguments)[2:], initial, strict=True))
        self._walk(body)
        self.position += 1
        for storage in self.storages[:before]:
            if storage.death >= start:
                storage.death = self.position
        self.roots.update(zip(op.results, initial, strict=False))

    def _outputs(self, entry: ir.Block) -> None:
        """What becomes one output, as it is, is written there directly if a call in main itself makes it."""
        returned = list(_terminator(entry).operands)
        roots = [self.roots.get(v, ()) for v in returned]
        for i, (v, root) in enumerate(zip(returned, roots, strict=True)):
            if len(root) != 1 or sum(r == root for r in roots) > 1:
                continue
            (storage,) = root
            made, given = (Tensor.of(w.type) for w in (storage.value, v))
            if storage.place or storage.value.owner.operation.block != entry or made.numel != given.numel:
                continue  # another number of elements is an error that is found only after the call (see main/run.py)
            if all(dims.symbols(d) <= self.known for d in given.dims):
                storage.place = f"output {i}"


def _parts(block: ir.Block) -> dict[ir.Value, tuple[ir.Value, int]]:
    """Every part of a joined tensor of the block: (that tensor, the bytes before the part there)."""
    found = {}
    for view in block.operations:
        if view.operation.name == "kernel.join":
            (joined,) = view.operation.results
            width = byte_width(Tensor.of(joined.type).elem)
            offsets = ir.DenseI64ArrayAttr(view.operation.attributes["offsets"])
            found.update({v: (joined, width * o) for v, o in zip(view.operation.operands, offsets, strict=True)})
    return found


def _terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation
