"""Tensors without elements: sums without terms are zeros, what has no element is not computed."""

from __future__ import annotations

import numpy as np

from tests.ops.oracle import Batch, Const, Sym, f32


def test_sums_without_terms_are_zeros() -> None:
    batch = Batch()
    for kind in ("symbolic", "static"):
        for op in ("MatMul", "Gemm"):
            sizes = [(3, 0, 4), (3, 5, 4), (0, 5, 4), (3, 5, 0)]
            if kind == "symbolic":
                a = Sym(("N", "K"), [f32(n, k) for n, k, _ in sizes])
                b = Sym(("K", "M"), [f32(k, m) for _, k, m in sizes])
                batch.add(op, [a, b], label=f"{op} {kind}")
                batch.add(op, [Sym(("N", "K"), [f32(30 * n, k) for n, k, _ in sizes]), b], label=f"{op} {kind}, rows")
            else:
                for n, k, m in sizes:
                    batch.add(op, [f32(n, k), f32(k, m)], label=f"{op} {n} {k} {m}")
        batch.add("MatMul", [f32(2, 3, 0), Const(np.zeros((0, 7), np.float32))], label=f"{kind} constant")
    batch.check()
