"""This file gives buffers their places in the workspace: which bytes each may have beside those in use with it.

Fixed sizes: first fit over live ranges, scratch last, the others the largest first, and again in other orders until
the plan is as small as what is live at once. A thread uses one row of scratch: above all else, what is not used of it
lies together, and the first run finds fewer pages to be got from the system and cleared. Where all sizes are known to
be limited, and the limits are modest, they are planned for the largest ones: offsets and the workspace are then
numbers, and tensors share bytes better. Else sizes that are dims lie behind the numbers, by first fit where proofs are
found.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from onnxc.dialects import dims

SAMPLES = (128, 33, 500)  # sizes by which symbolic ones are compared before any proof
MOST_IN_VAIN = 32  # proofs: each takes some 10 ms
MOST_ENDS = 8  # sizes of which none is provably within another: the workspace is their maximum
ROUNDS = 32  # orders that are tried: a dozen bring nets of branches to their lower bound
WORK = 4_000_000  # pairs of tensors looked at, about a second
MODEST = 1 << 30  # bytes of all tensors at their largest: what is not used of a workspace is never touched


@dataclass(eq=False)
class Storage:
    """A buffer of one call's result, or scratch: its size in bytes, and the first and last position at which it is in
    use."""

    value: ir.Value
    size: dims.Dim
    birth: int
    death: int
    place: str = ""
    scratch: bool = False


Plan = tuple[int, list[tuple[int, Storage]]]
"""The bytes in all, and the offset of each storage."""


def place(storages: list[Storage]) -> tuple[int, dims.Dim]:
    """Gives every storage without a place one in the workspace; returns the bytes of the static part and of all."""
    waiting = [s for s in storages if not s.place]
    if _limit(waiting):
        total = _place_fixed(waiting)
        return total, total
    fixed = _place_fixed([s for s in waiting if isinstance(s.size, int)])
    return fixed, _place_symbolic([s for s in waiting if not isinstance(s.size, int)], fixed)


def _limit(storages: list[Storage]) -> bool:
    """Gives sizes their largest values, if all are known to be limited and that asks for little memory."""
    largest = [dims.bounds(s.size)[1] for s in storages]
    if sum(largest) > MODEST and not all(isinstance(s.size, int) for s in storages):
        return False
    for storage, size in zip(storages, largest, strict=True):
        storage.size = int(size)
    return True


def _overlap(a: Storage, b: Storage) -> bool:
    return a.birth <= b.death and b.birth <= a.death


def _place_fixed(storages: list[Storage]) -> int:
    """Offsets of sizes that are numbers: in two orders, then again with what reached the top first, while it helps."""
    orders = [sorted(storages, key=lambda s: (s.scratch, -s.size, s.birth))]
    if any(s.scratch for s in storages):
        orders.append(sorted(storages, key=lambda s: (-s.size, s.birth)))
    bound = lower_bound(storages)
    total, placed = _improved(orders[0], bound)
    for order in orders[1:]:
        if total > bound:
            total, placed = min((total, placed), _improved(order, bound), key=lambda plan: plan[0])
    for offset, storage in placed:
        storage.place = f"workspace {offset}"
    return total


def _improved(order: list[Storage], bound: int) -> Plan:
    """The best of the plans that begin with this order."""
    best = total, placed = _packed(order)
    for _ in range(min(ROUNDS, WORK // (len(order) + 1) ** 2)):
        if total == bound:
            break
        top = [s for offset, s in placed if offset + s.size == total]
        order = [*top, *(s for s in order if s not in top)]
        total, placed = _packed(order)
        best = min(best, (total, placed), key=lambda plan: plan[0])
    return best


def _packed(order: list[Storage]) -> Plan:
    """The bytes in all, and each storage at the lowest gap among those before it that are in use together with it."""
    placed: list[tuple[int, Storage]] = []
    total = 0
    for storage in order:
        offset = 0
        for start, other in sorted(((o, s) for o, s in placed if _overlap(s, storage)), key=lambda p: p[0]):
            if start - offset >= storage.size:
                break
            offset = max(offset, start + other.size)
        placed.append((offset, storage))
        total = max(total, offset + storage.size)
    return total, placed


def _place_symbolic(storages: list[Storage], base: dims.Dim) -> dims.Dim:
    """Behind the fixed part: largest first, each where it provably meets nothing and, if possible, ends within what is
    taken; what finds no place shares slots at the end."""
    proofs = _Proofs()
    placed: list[tuple[dims.Dim, Storage]] = []
    ends: list[dims.Dim] = []  # none is provably within another
    left: list[Storage] = []
    for storage in sorted(storages, key=lambda s: ([-v for v in proofs.samples(s.size)], s.birth)):
        meets = [(offset, offset + s.size) for offset, s in placed if _overlap(s, storage)]
        at = _gap(storage.size, meets, ends, proofs)
        if at is None:
            left.append(storage)
            continue
        placed.append((at, storage))
        storage.place = f"workspace {base + at}"
        end = at + storage.size
        if not any(proofs.at_least(e, end) for e in ends):
            ends = [*(e for e in ends if not proofs.at_least(end, e)), end]
    return _place_slots(left, base + (dims.max(*ends) if ends else 0), proofs)


def _gap(
    size: dims.Dim, meets: list[tuple[dims.Dim, dims.Dim]], ends: list[dims.Dim], proofs: _Proofs
) -> dims.Dim | None:
    """The lowest offset for `size` bytes between those that it meets, if a proof is found and ends stay few."""
    for at in sorted(dict.fromkeys([0, *(end for _, end in meets)]), key=proofs.samples):
        end = at + size
        if not all(proofs.at_least(at, e) or proofs.at_least(o, end) for o, e in meets):
            continue
        within = any(proofs.at_least(e, end) for e in ends)
        if within or sum(not proofs.at_least(end, e) for e in ends) < MOST_ENDS:
            return at
    return None


class _Proofs:
    """Answers whether one size is at least another; no proof is tried of what a few sizes refute, and few in vain."""

    def __init__(self) -> None:
        self._samples: dict[dims.Dim, tuple[int, ...]] = {}
        self._known: dict[tuple[dims.Dim, dims.Dim], bool] = {}
        self._in_vain = 0

    def samples(self, size: dims.Dim) -> tuple[int, ...]:
        """The size where every symbol has one of a few values."""
        if size not in self._samples:
            names = dims.symbols(size)
            self._samples[size] = tuple(dims.evaluate(size, dict.fromkeys(names, value)) for value in SAMPLES)
        return self._samples[size]

    def at_least(self, left: dims.Dim, right: dims.Dim) -> bool:
        if left == right:
            return True
        if any(x < y for x, y in zip(self.samples(left), self.samples(right), strict=True)):
            return False
        if (left, right) not in self._known:
            proved = self._in_vain < MOST_IN_VAIN and dims.at_least(left, right)
            self._in_vain += not proved
            self._known[left, right] = proved
        return self._known[left, right]


def _place_slots(storages: list[Storage], base: dims.Dim, proofs: _Proofs) -> dims.Dim:
    """Slots one behind another; a slot is as large as the largest tensor in it."""
    slots: list[tuple[dims.Dim, list[Storage]]] = []
    for storage in storages:
        for i, (size, users) in enumerate(slots):
            if any(_overlap(storage, user) for user in users):
                continue
            if proofs.at_least(size, storage.size) or proofs.at_least(storage.size, size):
                larger = size if proofs.at_least(size, storage.size) else storage.size
                slots[i] = (larger, [*users, storage])
                break
        else:
            slots.append((storage.size, [storage]))
    for size, users in slots:
        for storage in users:
            storage.place = f"workspace {base}"
        base = base + size
    return base


def lower_bound(storages: list[Storage]) -> int:
    """The most bytes live at one position."""
    events = sorted([(s.birth, s.size) for s in storages] + [(s.death + 1, -s.size) for s in storages])
    live = most = 0
    for _, change in events:
        live += change
        most = max(most, live)
    return most
