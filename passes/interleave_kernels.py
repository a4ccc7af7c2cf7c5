"""kernels -> kernels: kernels that follow each other take turns by rows where what is between them is too large for L2.

Before:  %1 = "kernel.call"(%x, %w) {callee = @expand}      : tensor<1x112x112x96xf32>, 4.8 MB
         %2 = "kernel.call"(%1, %v) {callee = @depthwise}
After:   %s = "kernel.scratch"() : tensor<…xui8>             room for one thread
         %2 = "kernel.bands"(%s, %x, %w, %v) ({
         ^bb0(%a: …, %b: …, %c: …):
           %3 = "kernel.call"(%a, %b) {callee = @expand}
           %4 = "kernel.call"(%3, %c) {callee = @depthwise}
           "kernel.yield"(%4)
         }) {plan = array<i64: …>}
The functions are the same; the stub calls them for a few rows at a time. What is between them stays in cache, as long
as it is still to be read, so no memory is planned for the rest.
Bits are the same, since a kernel's extent may be split anywhere. `plan` is what the stub reads (onnxc_bands in
runtime_stub/entry.h); kernels that take turns get shorter units where their kind says that nothing is lost by it.
Which calls: row_turns.py. What tuning has found (`options.choices`) goes by the chain's signature: the calls after
which it falls apart, [0] or [0, 1]; with `--objective memory` it is not used. What the user asks for
(`options.overrides`) goes by the node's name: "never", or "always", however small what is between.
Keeps:   kernels and their schedules.      Leaves: chains of calls as `kernel.bands`, where sizes are known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.dialects.types import Tensor
from onnxc.passes.band_plan import BandPlan
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernel_calls import callee_of, kernel_calls, nodes_of
from onnxc.passes.kernels.kernel_function import KernelFunction, kernels_of
from onnxc.passes.overrides import ALWAYS, NOWHERE, asked, overrides
from onnxc.passes.rewriting import move_into
from onnxc.passes.row_turns import (
    Chain,
    chain_signature,
    chains_of,
    groups_of,
    plan_words,
    restore,
    shorten,
    usual_cuts,
)


@transforms(KERNELS, KERNELS)
def interleave_kernels(program: Program) -> None:
    """See the file's docstring. OnnxcError where a node asks for turns that its kernel cannot take."""
    kernels = kernels_of(program.module)
    before = shorten(program, kernels)
    planned = groups_that_take_turns(program, kernels)
    taking = {callee_of(turn.call) for group, _ in planned for turn in group}
    restore(kernels, {symbol: schedule for symbol, schedule in before.items() if symbol not in taking})
    _check(program, {node for group, _ in planned for turn in group for node in nodes_of(turn.call)})
    for group, plan in planned:
        _interleave(program, group, plan)


def groups_that_take_turns(program: Program, kernels: Mapping[str, KernelFunction]) -> list[tuple[Chain, BandPlan]]:
    """What is left of the heuristic's chains where records let them fall apart, with plans."""
    l2 = program.options.target.l2_bytes
    chains = chains_of(program, kernels)
    groups = [group for chain in chains for group in groups_of(chain, _after(program, chain), l2)]
    return [(group, plan) for group, plan in groups if plan is not None]


def _after(program: Program, chain: Chain) -> Sequence[int]:
    """The calls after which the chain falls apart, by a record where there is one."""
    choices, less = program.options.choices, program.options.objective == "memory"
    usual = () if less else usual_cuts(chain, program.options.target)
    if choices is None or any(turn.wanted for turn in chain):
        return usual
    signatures = program.notes["signatures"]
    signature = chain_signature([signatures[callee_of(turn.call)] for turn in chain])
    after = choices.turns(signature)
    if not after:
        return usual if after is None else ()
    if list(after) != sorted(set(after)) or not 0 <= after[0] <= after[-1] < len(chain) - 1:
        place = choices.origin(signature, "turns")
        why = f"of {len(chain)} kernels it falls apart after some of 0 … {len(chain) - 2}, in order, each named once"
        program.warnings.append(f"{place}: {why}: the heuristic decides who takes turns: {signature}")
        return usual
    where = ", ".join(map(str, after))
    told = "takes turns, which takes less memory" if less else f"falls apart after {where} by a record"
    program.log.append(("interleave_kernels", f"{told}: {signature}"))
    return () if less else after


def _check(program: Program, taking: Collection[str]) -> None:
    """Refuses turns for nodes none of which is among those that take some."""
    wanted = [o for o in overrides(program) if o.turns == ALWAYS and not any(map(o.matches, taking))]
    nodes = [node for call in kernel_calls(program.module) for node in nodes_of(call)] if wanted else []
    for override in wanted:
        node = next((n for n in nodes if asked(program, n, "turns") is override), None)
        why = "no kernel before or after it goes through the same rows alone, or what they keep does not fit into L2"
        if node is None and any(map(override.matches, nodes)):
            continue  # a later one holds for all of them
        if node is None:
            node, why = program.notes.get("named", {}).get(override.origin), NOWHERE
        if node is not None:
            raise override.refuse(f"turns = '{ALWAYS}' is not possible", node=node, why=why)


def _interleave(program: Program, chain: Chain, plan: BandPlan) -> None:
    """Moves the calls into a `kernel.bands` at the last one's place."""
    calls = [turn.call for turn in chain]
    names = ", ".join(callee_of(call) for call in calls)
    facts = f"{names} in {len(plan.steps)} bands, {sum(plan.buffers)} bytes a thread"
    program.log.append(("interleave_kernels", facts))
    last = calls[-1]
    made = {r for call in calls for r in call.results}
    outside = list(dict.fromkeys(v for call in calls for v in call.operands if v not in made))
    words, bytes_ = plan_words(chain, plan)
    scratch_type = Tensor("ui8", (bytes_,)).type(last.context)
    ip = ir.InsertionPoint(last)
    scratch = ir.Operation.create("kernel.scratch", results=[scratch_type], loc=last.location, ip=ip)
    bands = ir.Operation.create(
        "kernel.bands",
        results=[r.type for r in last.results],
        operands=[scratch.results[0], *outside],
        attributes={"plan": ir.DenseI64ArrayAttr.get(words)},
        regions=1,
        loc=last.location,
        ip=ip,
    )
    move_into(bands, calls, outside)
