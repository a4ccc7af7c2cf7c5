"""This file spans the schedules worth trying around a heuristic's: other register tiles, blocks, distances, widths.

Kinds with register tiles speak of the same things in their schedules (rows, vectors, lanes, group, prefetch, chunk …),
so the space around a schedule is made here; what a kernel cannot have, schedule_rules.py keeps out of it. No schedule
changes a bit of the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.register_tiles import Product, ranked_tiles

Schedule = dict[str, "int | str"]

TILES = 7  # of the register tiles that the cost model ranks
UNROLLED = (1, 2, 4)
DISTANCES = (256, 0, 64, 1, 128, 32, 16)  # early and late in turn
CHUNKS = (0, 512, 1024, 2048)


def tile_space(
    first: Schedule,
    rows: dims.Dim,
    columns: dims.Dim,
    terms: dims.Dim,
    target,
    unknown: int = 1 << 16,
    narrow: bool = True,
) -> list[Schedule]:
    """`first`, then tiles and other entries in turn, each the better ones of its sort first.

    `narrow`: also vectors of half the width: columns that do not fill the wide ones, or CPUs that split them."""
    lanes = first["lanes"]
    product = Product(rows, columns, lanes, terms, unknown=unknown)
    ranked = ranked_tiles(product, target) if lanes > 1 else []
    other = [first | {"rows": r, "vectors": v} for r, v in ranked[:TILES]]
    half = ranked_tiles(replace(product, lanes=lanes // 2), target)[:2] if narrow and lanes >= 8 else []
    halves = [first | {"rows": r, "vectors": v, "lanes": lanes // 2} for r, v in half]
    tiles, narrower = ([regrouped(first, s) for s in found] for found in (other, halves))
    return distinct(first, interleaved(tiles, blocks(first), narrower))


def regrouped(first: Mapping, schedule: Schedule) -> Schedule:
    """The schedule with as many rows a unit as `first` has, so that blocks still fit their cache."""
    if "group" not in schedule:
        return schedule
    return schedule | {"group": max(1, -(-first["group"] * first["rows"] // schedule["rows"]))}


def blocks(first: Schedule) -> list[Schedule]:
    """Other cache blocks, prefetch distances and chunks with the same register tile, one of each sort in turn."""
    sorts: list[list[Schedule]] = []
    if first.get("packed") and "prefetch" in first:
        sorts.append([first | {"prefetch": distance} for distance in DISTANCES if distance != first["prefetch"]])
    if "group" in first:
        sorts.append([first | {"group": max(1, group)} for group in scaled(first["group"], (2, 0.5, 4, 0.25))])
    if first.get("packed") == 0 and "copied" in first:
        sorts.append([first | ({"copied": 0, "chunk": 0} if first["copied"] else {"copied": 1})])
    if "chunk" in first:
        sorts.append([first | {"chunk": chunk} for chunk in CHUNKS if chunk != first["chunk"]])
    return list(interleaved(*sorts))


def unrolled(first: Schedule) -> list[Schedule]:
    """The inner loop's steps of several terms."""
    return [first | {"unroll": terms} for terms in UNROLLED]


def other_loops(
    kernel: KernelFunction,
    first: Schedule,
    groups: dims.Dim,
    rows: dims.Dim,
    columns: dims.Dim,
    terms: dims.Dim,
    target,
) -> list[Schedule]:
    """The same sums by other loops: the epilogue in one of its own, which lets tiles be as large as without it, panels
    outermost where there are several `groups` of rows, and steps of several terms. All but one with `first`'s tile."""
    found = []
    if contraction.has_costly_epilogue(kernel):
        product = Product(rows, columns, first["lanes"], terms)
        ranked = ranked_tiles(product, target)[:2] if first["lanes"] > 1 else []
        found += [regrouped(first, first | {"rows": r, "vectors": v, "apart": 1}) for r, v in ranked]
    if groups != 1:
        found.append(first | {"order": "columns", "prefetch": 0})
    return [*found, *unrolled(first), *([first | {"apart": 1}] if len(kernel.ops) > 1 else [])]


def with_loops(own: list[Schedule], loops: Iterable[Schedule]) -> list[Schedule]:
    """Tiles and blocks, of which the better ones are first, with one of `loops` after every two of them."""
    first, *rest = own
    pairs = [rest[i : i + 2] for i in range(0, len(rest), 2)]
    mixed = itertools.zip_longest(pairs, loops)
    return distinct(first, (s for pair, loop in mixed for s in (*(pair or ()), loop) if s is not None))


def scaled(value: int, factors: Iterable[float]) -> list[int]:
    return [max(1, round(value * factor)) for factor in factors]


def interleaved(*sorts: Iterable[Schedule]) -> Iterator[Schedule]:
    """One of each sort in turn, until all are through."""
    for row in itertools.zip_longest(*sorts):
        yield from (schedule for schedule in row if schedule is not None)


def distinct(first: Schedule, others: Iterable[Schedule]) -> list[Schedule]:
    """`first` and the others, each once."""
    found: dict[tuple, Schedule] = {}
    for schedule in [first, *others]:
        found.setdefault(tuple(sorted(schedule.items())), schedule)
    return list(found.values())


def crossed(first: Mapping, best: Mapping, other: Mapping) -> Schedule:
    """`best` with those entries in which `other` differs from `first`: two improvements in one."""
    changed = {key: value for key, value in other.items() if first.get(key) != value}
    return {**best, **changed}
