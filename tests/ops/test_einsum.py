"""Einsum against onnxruntime."""

from __future__ import annotations

import numpy as np

from tests.ops.oracle import Batch, Sym, f32


def test_equations():
    batch = Batch()
    for equation, *shapes in [
        ("ij,jk->ik", (3, 4), (4, 5)),
        ("bhid,bhjd->bhij", (2, 3, 4, 8), (2, 3, 5, 8)),
        ("bhij,bhjd->bihd", (2, 3, 4, 5), (2, 3, 5, 8)),
        ("i,i->", (5,), (5,)),
        ("ijk->", (2, 3, 4)),
        ("ijk,k->ij", (2, 3, 4), (4,)),
        ("...ij,...jk", (2, 2, 3, 4), (2, 2, 4, 5)),
        ("bn,anm,bm->ba", (2, 5), (3, 5, 4), (2, 4)),
        ("ij,ij->ij", (3, 4), (3, 4)),
    ]:
        batch.add("Einsum", [f32(*s) for s in shapes], equation=equation)
    batch.add("Einsum", [f32(3, 4).astype(np.float64), f32(4, 5).astype(np.float64)], equation="ij,jk->ik", label="f64")
    batch.check()


def test_symbolic():
    batch = Batch()
    sizes = [(2, 3, 4), (1, 1, 1), (3, 0, 2)]
    batch.add(
        "Einsum",
        [
            Sym(("B", "I", 6), [f32(b, i, 6) for b, i, _ in sizes]),
            Sym(("B", "J", 6), [f32(b, j, 6) for b, _, j in sizes]),
        ],
        equation="bid,bjd->bij",
    )
    batch.check()
