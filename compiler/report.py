"""This file writes and shows the report in an artefact: what was chosen for its kernels, its weights, its memory.

{"format": 1, "weights": {"bytes": …, "plain": …, "padding": …, "copies": [{weight, layouts, bytes, plain}, …]},
 "variants": [{"name": …, "target": …, "memory": {…}, "kernels": [{kind, algorithm, source, schedule, calls}, …]}, …]}

It ships with the artefact, so it is small: names of nodes are cut to each call's first where they would fill too much.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from onnxc.dialects.weights import WeightStore

FORMAT = 1
LARGEST = 256 << 10  # bytes


def write_report(variants: Sequence[Mapping[str, Any]], weights: Mapping[str, Any]) -> str:
    """The report as text; `variants`: name, target and what passes/describe_kernels.py noted, most specific first."""
    text = _text({"format": FORMAT, "weights": weights, "variants": variants})
    if len(text) <= LARGEST:
        return text
    shorter = [
        {**v, "kernels": [{**k, "calls": [nodes[:1] for nodes in k["calls"]]} for k in v["kernels"]]} for v in variants
    ]
    return _text({"format": FORMAT, "weights": weights, "variants": shorter})


def describe_weights(entries: Iterable[tuple[str | np.ndarray, int]], store: WeightStore) -> dict[str, Any]:
    """What ships of the weights: bytes in all, bytes before packing, what filling up panels costs, and all copies.

    A copy is what a weight takes beyond its plain size: in another form (Winograd's, FFT's), or in several layouts.
    """
    layouts: dict[str, list[tuple[str, int]]] = {}  # weight → (layout, bytes) of its entries
    total = inline = 0
    for entry, _ in entries:
        size = store.nbytes(entry) if isinstance(entry, str) else entry.nbytes
        total += size
        if isinstance(entry, str):
            weight, layout = _origin(entry, store)
            layouts.setdefault(weight, []).append((layout, size))
        else:
            inline += size
    copies, padding = [], 0
    for weight, found in layouts.items():
        plain, size = store.nbytes(weight), sum(size for _, size in found)
        if len(found) > 1 or ":" in found[0][0]:  # made in two steps: transformed, then packed
            if size > plain:
                names = sorted(layout or "plain" for layout, _ in found)
                copies.append({"weight": weight, "layouts": names, "bytes": size, "plain": plain})
        else:
            padding += max(0, size - plain)
    plain = inline + sum(map(store.nbytes, layouts))
    return {"bytes": total, "plain": plain, "padding": padding, "copies": copies}


def _origin(key: str, store: WeightStore) -> tuple[str, str]:
    """The weight that an entry was made from, and how: `fc.w:panels48` → (`fc.w`, `panels48`)."""
    at = key.find(":")
    while at >= 0:
        if key[:at] in store:
            return key[:at], key[at + 1 :]
        at = key.find(":", at + 1)
    return key, ""


def _text(report: Mapping[str, Any]) -> str:
    return json.dumps(report, ensure_ascii=False, separators=(",", ":"))


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """The report for people: weights, copies, and for each variant its memory and kernels."""
    weights = report["weights"]
    given = next((v["model_bytes"] for v in report["variants"] if v.get("model_bytes")), weights["plain"])
    plain = f"{readable_size(weights['plain'])} before packing, {readable_size(given)} in the model"
    lines = [f"report    weights {readable_size(weights['bytes'])}, {plain}"]
    gains = {weight: gain for variant in report["variants"] for weight, gain in variant.get("gains", {}).items()}
    for copy in weights["copies"]:
        worth = f", {gains[copy['weight']]:.2f} times as fast by the estimate" if copy["weight"] in gains else ""
        lines.append(f"  copy    {copy['weight']}: {', '.join(copy['layouts'])}, {readable_size(copy['bytes'])} "
                     f"instead of {readable_size(copy['plain'])}{worth}")  # fmt: skip
    for variant in report["variants"]:
        memory = variant["memory"]
        lines.append(f"  variant {variant['name']}: {len(variant['kernels'])} kernels{_plan(memory)}")
        lines += [f"  kernel  {_kernel(kernel)}" for kernel in variant["kernels"]]
    return lines


def trade_line(objective: str, trade: Mapping[str, Any], memory: Mapping[str, int | str]) -> str:
    """What `objective`, other than speed, saves and costs, for people."""
    size = _workspace(memory["workspace"])
    if not trade["layers"]:
        return f"objective {objective}: nothing to save, as fast as with speed; workspace {size}"
    slower = f"about {(trade['plain'] - trade['fast']) / 1e6:.3g} ms slower a run {_source(trade)}"
    what = f"{trade['layers']} convolutions without transformed weights ({readable_size(trade['bytes'])} less)"
    return f"objective {objective}: {what}, {slower} than with speed; workspace {size}"


def _workspace(size: int | str) -> str:
    """Its bytes, where they are known: a formula of many dims tells nobody anything."""
    return readable_size(size) if isinstance(size, int) else "by the input shapes"


def _source(trade: Mapping[str, Any]) -> str:
    """Who says how long the layers take."""
    measured, layers = trade["measured"], trade["layers"]
    if measured == layers:
        return "as records have measured"
    return f"on one core by the estimate{f' ({measured} of {layers} as records have measured)' if measured else ''}"


def trade_table(
    objective: str, weights: tuple[int, int], workspaces: tuple[int | str, int | str], trade: Mapping[str, Any]
) -> list[str]:
    """Bytes with speed, and with another objective, and the time of the layers that differ, as lines of a table."""
    rows = [("", "speed", objective)]
    pairs: dict[str, tuple[int | str, int | str]] = {"weights": weights, "workspace": workspaces}
    for name, (fast, other) in pairs.items():
        shown = [_workspace(n) for n in (fast, other)]
        if isinstance(fast, int) and isinstance(other, int) and fast:
            shown[1] += f" ({other / fast:.2f})"
        rows.append((name, shown[0], shown[1]))
    if trade["layers"]:
        told = "measured" if trade["measured"] == trade["layers"] else "by the estimate"
        fast, plain = (f"{trade[name] / 1e6:.3g} ms" for name in ("fast", "plain"))
        rows.append(("layers", fast, f"{plain} ({trade['plain'] / trade['fast']:.2f}), {told}"))
    width = max(len(row[1]) for row in rows)
    return [f"  {name:10} {fast:>{width}}  {other}" for name, fast, other in rows]


def _plan(memory: Mapping[str, int]) -> str:
    """`, workspace 1.2 MB, 1.04 of the lower bound`, where a part of it is known."""
    if not memory.get("static"):
        return ""
    ratio = memory["static"] / memory["lower_bound"] if memory["lower_bound"] else 1.0
    return f", workspace {readable_size(memory['static'])}, {ratio:.2f} of the lower bound"


def _kernel(kernel: Mapping[str, Any]) -> str:
    """`conv direct (record): rows=6 vectors=4: conv1 + relu1, and 2 more calls`."""
    calls = kernel["calls"]
    head = " ".join(filter(None, [kernel["kind"], kernel.get("algorithm")]))
    source = f" ({kernel.get('algorithm_source', kernel['source'])})" if "source" in kernel else ""
    source += f" divided ({kernel['fusion_source']})" if "fusion_source" in kernel else ""
    schedule = " ".join(f"{name}={value}" for name, value in kernel.get("schedule", {}).items())
    more = f", and {len(calls) - 1} more calls" if len(calls) > 1 else ""
    return ": ".join(filter(None, [head + source, schedule, " + ".join(calls[0]) + more]))


def readable_size(count: int) -> str:
    """`31 bytes`, `4.2 kB`, `102.4 MB`."""
    if count < 1000:
        return f"{count} bytes"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"
