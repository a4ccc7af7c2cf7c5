"""The memory plan of random programs, checked by running them on intervals: what a call reads must still be what was
written there. Views, joined tensors and their parts, Ifs (either branch), Loops (no trip and two trips), symbolic sizes, outputs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import new_context
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program
from onnxc.passes.plan_memory import plan_memory
from onnxc.passes.workspace import Storage, lower_bound, place

SHAPES = {  # dims → the same number of elements in another shape
    "tensor<40xf32>": "tensor<8x5xf32>",
    "tensor<3xf32>": "tensor<3x1xf32>",
    'tensor<?x8xf32, ["N", 8]>': 'tensor<?xf32, ["8*N"]>',
    'tensor<?x?xf32, ["N", "M"]>': 'tensor<?xf32, ["M*N"]>',
    'tensor<?xf32, ["N+1"]>': 'tensor<1x?xf32, [1, "N+1"]>',
    'tensor<?xf32, ["s0"]>': 'tensor<?x1xf32, ["s0", 1]>',  # known in the course of the run
}
JOINED = {  # the type of a part → what several of them make: runs of it, or of each of its rows
    "tensor<40xf32>": "tensor<{}xf32>",
    'tensor<?x8xf32, ["N", 8]>': 'tensor<?x{0}xf32, ["N", {0}]>',
}
COUNT, FLAG = "tensor<i64>", "tensor<i1>"


class Writer:
    """Writes a random main of calls, views, Ifs and Loops."""

    def __init__(self, seed: int, length: int):
        self.random, self.lines, self.number = random.Random(seed), [], 0
        inputs = {f"%x{i}": type_ for i, type_ in enumerate(list(SHAPES)[:-1])}
        scope = dict(inputs)
        self.lines.append('"kernel.bind_dims"(%s) {symbols = ["s0"]} : (tensor<1xi64>) -> ()')
        self.block(scope, length, depth=0)
        returned = self.random.choices(sorted(scope), k=self.random.randint(1, 4))
        types = ", ".join(scope[v] for v in returned)
        arguments = ", ".join(f"{v}: {t}" for v, t in inputs.items())
        header = f"func.func @main(%n: {COUNT}, %c: {FLAG}, %s: tensor<1xi64>, {arguments}) -> ({types}) {{"
        self.text = "\n".join([header, *self.lines, f"return {', '.join(returned)} : {types}", "}"])

    def name(self) -> str:
        self.number += 1
        return f"%v{self.number}"

    def block(self, scope: dict[str, str], length: int, depth: int) -> None:
        for _ in range(length):
            kinds = [self.call, self.call, self.call, self.view, self.join]
            kinds += [self.branch, self.loop, self.loop] if depth < 2 else []
            self.random.choice(kinds)(scope, depth)

    def call(self, scope: dict[str, str], depth: int) -> None:
        operands = self.random.choices(list(scope)[-8:], k=self.random.randint(1, 3))
        types = self.random.choices(list(SHAPES), k=self.random.choice([1, 1, 1, 2]))
        name = self.name()
        read, made = ", ".join(scope[v] for v in operands), ", ".join(types)
        count = f":{len(types)}" if len(types) > 1 else ""
        self.lines.append(
            f'{name}{count} = "kernel.call"({", ".join(operands)}) {{callee = @k}} : ({read}) -> ({made})'
        )
        scope |= {f"{name}#{i}" if count else name: t for i, t in enumerate(types)}

    def join(self, scope: dict[str, str], depth: int) -> None:
        """Parts, each made by a call, with others between them."""
        part, count = self.random.choice(sorted(JOINED)), self.random.randint(2, 3)
        made = []
        for _ in range(count):
            operand, name = self.random.choice(list(scope)[-8:]), self.name()
            self.lines.append(f'{name} = "kernel.call"({operand}) {{callee = @k}} : ({scope[operand]}) -> {part}')
            scope[name] = part
            made.append(name)
            for _ in range(self.random.randint(0, 2)):
                self.random.choice([self.call, self.view])(scope, depth)
        width = 40 if "40" in part else 8
        whole, name = JOINED[part].format(count * width), self.name()
        offsets = ", ".join(str(i * width) for i in range(count))
        types = ", ".join([part] * count)
        attributes = f"{{offsets = array<i64: {offsets}>}}"
        self.lines.append(f'{name} = "kernel.join"({", ".join(made)}) {attributes} : ({types}) -> {whole}')
        scope[name] = whole

    def view(self, scope: dict[str, str], depth: int) -> None:
        flat = {v: t for v, t in scope.items() if t in SHAPES}
        source, name = self.random.choice(sorted(flat)), self.name()
        target = SHAPES[flat[source]]
        self.lines.append(f'{name} = "kernel.view"({source}) : ({flat[source]}) -> {target}')
        scope[name] = target

    def region(self, outer: dict[str, str], depth: int, wanted: str) -> None:
        """A body that yields, besides a condition in loops, some value of type `wanted`."""
        scope = dict(outer)
        self.block(scope, self.random.randint(0, 5), depth + 1)
        found = self.random.choice(sorted(v for v, t in scope.items() if t == wanted))
        flag = "%c, " if self.loops else ""
        types = f"{FLAG}, {wanted}" if self.loops else wanted
        self.lines.append(f'"onnx.Yield"({flag}{found}) : ({types}) -> ()')

    loops = False

    def branch(self, scope: dict[str, str], depth: int) -> None:
        wanted, name = self.random.choice(sorted(set(scope.values()))), self.name()
        outer, self.loops = self.loops, False
        self.lines.append(f'{name} = "onnx.If"(%c) ({{')
        self.region(scope, depth, wanted)
        self.lines.append("}, {")
        self.region(scope, depth, wanted)
        self.lines.append(f"}}) : ({FLAG}) -> {wanted}")
        self.loops = outer
        scope[name] = wanted

    def loop(self, scope: dict[str, str], depth: int) -> None:
        initial, name = self.random.choice(sorted(scope)), self.name()
        wanted, state = scope[initial], f"%state{self.number}"
        outer, self.loops = self.loops, True
        self.lines.append(f'{name} = "onnx.Loop"(%n, %c, {initial}) ({{')
        self.lines.append(f"^bb0(%i{self.number}: {COUNT}, %go{self.number}: {FLAG}, {state}: {wanted}):")
        self.region({**scope, state: wanted}, depth, wanted)
        self.lines.append(f"}}) : ({COUNT}, {FLAG}, {wanted}) -> {wanted}")
        self.loops = outer
        scope[name] = wanted


class Machine:
    """Runs a planned main: memory is a list of who wrote which bytes last, a value the bytes it lies in.

    As in passes/main: a view is where its source is; a trip that yields the block's own argument passes it on; other
    carried values are copied to memory outside the workspace.
    """

    def __init__(self, sizes: dict[str, int], choose: random.Random):
        self.sizes, self.choose = sizes, choose
        self.written: list[tuple[str, int, int, int]] = []  # space, first byte, end, mark of the write
        self.places: dict[ir.Value, tuple[tuple[str, int, int, int], ...]] = {}  # none: never overwritten
        self.marks = 0
        self.rows: dict[ir.Value, int] = {}  # parts of joined tensors: the bytes from one row to the next

    def write(self, v: ir.Value, place: str) -> None:
        kind, _, where = place.partition(" ")
        self.places[v] = ()
        if kind == "arena":
            return
        if kind == "workspace":
            space, start = kind, dims.evaluate(dims.parse(where), self.sizes)
        else:
            number, _, offset = where.partition(" ")
            space, start = f"output {number}", int(offset or 0)
        shape = [dims.evaluate(d, self.sizes) for d in Tensor.of(v.type).dims]
        if v in self.rows and len(shape) > 1:
            runs = [(start + i * self.rows[v], 4 * shape[-1]) for i in range(shape[0])]
        else:
            runs = [(start, 4 * dims.product(shape))]
        assert v in self.rows or start % 64 == 0
        self.places[v] = tuple(self.write_run(space, *run) for run in runs if run[1])

    def write_run(self, space: str, start: int, size: int) -> tuple[str, int, int, int]:
        if space == "workspace":
            assert start + size <= self.sizes["workspace"]
        self.marks += 1
        self.written = [w for w in self.written if w[0] != space or w[2] <= start or start + size <= w[1]]
        self.written.append((space, start, start + size, self.marks))
        return self.written[-1]

    def read(self, v: ir.Value) -> None:
        assert all(lies in self.written for lies in self.places.get(v, ())), f"{v} was overwritten"

    def block(self, block: ir.Block) -> list[ir.Value]:
        for view in block.operations:
            if view.operation.name == "kernel.join":
                row = 4 * Tensor.of(view.operation.results[0].type).dims[-1]
                self.rows.update(dict.fromkeys(view.operation.operands, row))
        for view in block.operations:
            op = view.operation
            if op.name in ("onnx.Yield", "func.return"):
                return list(op.operands)
            for v in op.operands:
                self.read(v)
            if op.name == "kernel.call":
                for result, place_ in zip(op.results, op.attributes["places"], strict=True):
                    self.write(result, ir.StringAttr(place_).value)
                for v in [*op.operands, *op.results]:  # the call reads while it writes
                    self.read(v)
            elif op.name == "kernel.view":
                self.places[op.results[0]] = self.places.get(op.operands[0], ())
            elif op.name == "kernel.join":
                self.places[op.results[0]] = sum((self.places[v] for v in op.operands), ())
            elif op.name == "onnx.If":
                (yielded,) = self.block(op.regions[self.choose.randint(0, 1)].blocks[0])
                self.places[op.results[0]] = self.places.get(yielded, ())
            elif op.name == "onnx.Loop":
                self.loop(op)
        raise AssertionError("a block without terminator")

    def loop(self, op: ir.Operation) -> None:
        body = op.regions[0].blocks[0]
        state = body.arguments[2]
        self.places[state] = self.places.get(op.operands[2], ())
        for _ in range(self.choose.choice([0, 2])):
            yielded = self.block(body)[1]
            self.read(yielded)
            if yielded != state:
                self.places[state] = ()
        self.places[op.results[0]] = self.places[state]


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 12), n=st.integers(0, 70), m=st.integers(0, 9))
def test_what_is_read_was_not_overwritten(seed: int, length: int, n: int, m: int) -> None:
    with new_context(), ir.Location.unknown():
        program = Program(ir.Module.parse(Writer(seed, length).text))
        plan_memory(program)
        main = program.module.body.operations[0]
        sizes = {"N": n, "M": m, "s0": 5}
        sizes["workspace"] = dims.evaluate(dims.parse(ir.StringAttr(main.attributes["workspace"]).value), sizes)
        for run in range(3):
            machine = Machine(sizes, random.Random(run))
            for v in machine.block(main.regions[0].blocks[0]):
                machine.read(v)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15), st.integers(0, 2000)), max_size=40))
def test_plan_of_numbers_is_near_the_lower_bound(spans: list[tuple[int, int, int]]) -> None:
    storages = [Storage(None, -(-size // 64) * 64, birth, birth + length) for birth, length, size in spans]
    fixed, total = place(storages)
    assert fixed == total
    bound = lower_bound(storages)
    assert bound <= total <= 2 * bound


def test_both_sizes_are_told() -> None:
    with new_context(), ir.Location.unknown():
        program = Program(ir.Module.parse(Writer(3, 10).text))
        plan_memory(program)
    ((name, text),) = program.log
    assert name == "plan_memory" and "lower bound" in text


@pytest.mark.parametrize("layers", [50])
def test_a_chain_needs_two_buffers(layers: int) -> None:
    storages = [Storage(None, 640, i, i + 1) for i in range(layers)]
    assert place(storages) == (1280, 1280)


def test_another_order_is_tried_where_the_largest_first_is_not_the_best() -> None:
    spans = [(4, 7, 128), (5, 5, 256), (1, 3, 64), (1, 4, 128), (3, 3, 256)]  # largest first: 512
    storages = [Storage(None, size, birth, death) for birth, death, size in spans]
    assert place(storages) == (448, 448) and lower_bound(storages) == 448


def test_small_symbolic_tensors_share_the_place_of_a_large_one() -> None:
    """As in a transformer: 12 layers of (4 tensors of 1, then one of 4 times their size)."""
    one = dims.symbol("batch") * dims.symbol("seq") * 1536
    spans = [(at, size) for layer in range(12) for at, size in ((3 * layer, one * 4), *[(3 * layer + 1, one)] * 4)]
    storages = [Storage(None, size, birth, birth) for birth, size in spans]
    assert place(storages) == (0, one * 4)


def test_sizes_that_cannot_be_compared_lie_behind_one_another_or_at_the_larger_ones_end() -> None:
    n, m = (dims.symbol(name) * 64 for name in "nm")
    storages = [Storage(None, n, 0, 1), Storage(None, m, 0, 1), Storage(None, n, 2, 2), Storage(None, m, 2, 2)]
    _, total = place(storages)
    for sizes in ({"n": 3, "m": 90}, {"n": 90, "m": 3}):
        assert dims.evaluate(total, sizes) == 64 * 93


def test_scratch_lies_above_all_else_that_is_used() -> None:
    """Hardly any of it is touched, so what else there is shares the bytes below, as far as the whole does not grow."""
    storages = [
        Storage(None, 640, 0, 1),
        Storage(None, 6400, 1, 1, scratch=True),
        Storage(None, 640, 1, 2),
        Storage(None, 3200, 3, 3, scratch=True),
        Storage(None, 640, 2, 3),
    ]
    assert place(storages) == (7680, 7680) and lower_bound(storages) == 7680
    assert [s.place.split()[1] for s in storages] == ["0", "1280", "640", "640", "0"]


def test_scratch_lies_below_where_the_workspace_would_grow() -> None:
    tensors = [Storage(None, 320, 0, 3), Storage(None, 256, 0, 1)]
    scratch = [Storage(None, 192, 3, 3), Storage(None, 384, 1, 3), Storage(None, 192, 2, 3)]
    for storage in scratch:
        storage.scratch = True
    assert place([*tensors, *scratch]) == (1088, 1088) and lower_bound([*tensors, *scratch]) == 1088
