"""Kernel kind `conv`: convolution over channels-last tensors; which algorithm, its schedule and its packed weights.

Direct (pixel_tiles.py): weights lie in panels [group][panel][tap][channel][column]. Depthwise: depthwise.py, weights as
they are.
"""

from __future__ import annotations

import numpy as np

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction, depthwise, patch_tiles, prefetching, scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.filter_panels import filter_panels
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, READ, KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing, entries
from onnxc.passes.kernels.pixel_tiles import ConvSchedule, PixelTiles, pixel_bounds, pixel_grid
from onnxc.passes.kernels.register_tiles import TALLEST, Product, best_tile, halves_vectors, terms_a_step
from onnxc.passes.kernels.row_order import RowOrder
from onnxc.passes.kernels.schedule_space import distinct, other_loops, tile_space, with_loops

POINTERS = 8  # rows of a tile that is no matmul: each is a pointer, and more than registers hold cost a load each
FEWER = 8  # units that do, where more would read weights twice
ALGORITHMS = {"depthwise": depthwise, "patch": patch_tiles}  # beside "direct", which is here


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    """The heuristic schedule for the kernel's shapes; `panel`: the weights lie in panels of so many columns already."""
    p = Conv.of(kernel)
    if depthwise.applies(p):
        return depthwise.choose(p, target)
    if patch_tiles.applies(p, target) and _weights(kernel) in kernel.constants:
        return patch_tiles.choose(p, target, contraction.has_costly_epilogue(kernel), panel)
    return _choose_direct(kernel, p, target, panel)


def _choose_direct(kernel: KernelFunction, p: Conv, target, panel: int = 0) -> dict[str, int | str]:
    sums = contraction.arithmetic(p.elem, target, p.filters)
    apart = p.row * p.strides[-1] * scalars.byte_width(p.elem)
    tallest = TALLEST if p.dense else POINTERS
    costly = contraction.has_costly_epilogue(kernel)
    product = Product(
        p.pixels,
        p.filters,
        sums.lanes,
        p.taps * p.channels,
        row_bytes=apart,
        tallest=tallest,
        costly=costly,
        panel=panel,
        again=True,
        period=p.out[-1],
        pointers=not p.dense,
    )
    rows, vectors, lanes = best_tile(product, target)
    width = vectors * lanes
    packed = int(_weights(kernel) in kernel.constants)
    channels = p.channels if isinstance(p.channels, int) else 64
    pixel_bytes = max(1, channels * int(np.prod(p.strides)) * scalars.byte_width(p.elem))
    tiles = contraction.tile_count(p.pixels, rows)
    panels = (p.filters + (width - 1)) // width * p.group
    once = bool(packed) and _weights_leave_cache(p, target)
    group = contraction.tiles_a_unit(tiles, panels, pixel_bytes * rows, target, FEWER if once else contraction.UNITS)
    wider = panel if panel != width else 0
    together, line = group if isinstance(tiles, int) else contraction.TILES, width * scalars.byte_width(p.elem)
    ahead = prefetching.prefetch_distance(together, rows, line, kernel, target)
    ahead = ahead if packed and not wider and panels != 1 else 0  # one panel stays near after the first tile
    order = "columns" if once and isinstance(tiles, int) and group < tiles else "rows"
    step = terms_a_step(p.channels, rows, vectors, target)
    return entries(ConvSchedule(rows, vectors, lanes, group, packed, ahead, panel=wider, unroll=step, order=order))


def _weights_leave_cache(p: Conv, target) -> bool:
    """Whether weights come from behind L2 each time, and all pixels stay in it meanwhile: a panel is then read once."""
    weights = p.taps * p.channels * p.filters * p.group
    pixels = p.images * dims.product(p.size) * p.row
    known = isinstance(weights, int) and isinstance(pixels, int)
    width = scalars.byte_width(p.elem)
    return known and weights * width > target.l2_bytes and pixels * width <= target.l2_bytes // 4


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Schedules worth trying, the heuristic's first: of its own loops, and of the others that can do it."""
    p, first = Conv.of(kernel), choose(kernel, target)
    direct = _choose_direct(kernel, p, target)
    terms = p.taps * p.channels
    groups, _, _ = pixel_grid(p, ConvSchedule(**direct))
    loops = other_loops(kernel, direct, groups, p.pixels, p.filters, terms, target)
    spaces = {"direct": lambda: with_loops(tile_space(direct, p.pixels, p.filters, terms, target), loops)}
    if depthwise.applies(p):
        spaces = {"depthwise": lambda: depthwise.candidates(p, target)}
    elif patch_tiles.applies(p, target) and _weights(kernel) in kernel.constants:
        spaces["patch"] = lambda: patch_tiles.candidates(p, target)
    own = spaces.pop(first["algorithm"], lambda: [first])()
    return distinct(first, [*own, *(s for others in spaces.values() for s in others()[:4])])


def _weights(kernel: KernelFunction) -> int:
    return kernel.operands.index(kernel.root.operands[1])


def packings(kernel: KernelFunction) -> list[Packing]:
    schedule = kernel.schedule
    if not schedule.get("packed"):
        return []
    width = schedule.get("panel") or schedule["vectors"] * schedule["lanes"]
    return [filter_panels(kernel, Conv.of(kernel), width)]


def launch(kernel: KernelFunction) -> Launch:
    if kernel.schedule["algorithm"] in ALGORITHMS:
        return ALGORITHMS[kernel.schedule["algorithm"]].launch(kernel)
    p, s = Conv.of(kernel), ConvSchedule(**kernel.schedule)
    groups, panels, _ = pixel_grid(p, s)
    rows = min(p.pixels, s.group * s.rows) if isinstance(p.pixels, int) else s.group * s.rows
    term = s.width * max(MULTIPLY_ADD * rows, READ)  # few pixels: reading the weights is what takes the time
    return Launch(groups * p.group * panels, term * p.taps * p.channels)


def finer(kernel: KernelFunction, target) -> dict[str, int | str] | None:
    """The schedule with shorter units, if it has long ones and loses nothing by it: weights that stay in L1 may be read
    again by every few row tiles. A unit is whole rows of the image where tiles end with them, as ranked_tiles has it
    where vectors are halved: bands of whole rows keep and compute the least."""
    schedule = kernel.schedule
    if schedule["algorithm"] != "direct" or schedule["group"] <= contraction.TILES:
        return None
    p, s = Conv.of(kernel), ConvSchedule(**schedule)
    panels = pixel_grid(p, s)[1] * p.group
    bytes_ = panels * s.width * p.taps * p.channels * scalars.byte_width(p.elem)
    if panels != 1 and not (isinstance(bytes_, int) and bytes_ <= target.l1_bytes // 2):
        return None
    tiles = contraction.TILES
    if halves_vectors(target) and isinstance(p.out[-1], int) and p.out[-1] % s.rows == 0:
        row = p.out[-1] // s.rows
        tiles = -(-tiles // row) * row
    return {**schedule, "group": tiles}


def order(kernel: KernelFunction) -> RowOrder | None:
    """How the kernel's units go through its result; None where sizes are not known, or where they go by columns."""
    if kernel.schedule["algorithm"] in ALGORITHMS:
        return ALGORITHMS[kernel.schedule["algorithm"]].order(kernel)
    p, s = Conv.of(kernel), ConvSchedule(**kernel.schedule)
    panels = pixel_grid(p, s)[1] * p.group
    if s.order == "columns" and panels != 1:
        return None  # nothing is whole before the last panel
    return p.row_order(kernel, lambda: pixel_bounds(p, s), panels)


def emit(b: KernelBuilder) -> None:
    if b.kernel.schedule["algorithm"] in ALGORITHMS:
        ALGORITHMS[b.kernel.schedule["algorithm"]].emit(b)
        return
    PixelTiles(b, Conv.of(b.kernel), ConvSchedule(**b.kernel.schedule)).run()
