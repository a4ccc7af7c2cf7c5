"""ConvTranspose of few filters, which becomes a convolution of all phases, against onnxruntime."""

from __future__ import annotations

import numpy as np

from tests.ops.oracle import Batch, Const, Sym, f32

# (sizes of x, filters, kernel, what the node says): strides that divide the kernel and do not, windows without padding
# and with more than a stride of it, lines and volumes, axes of one pixel
CASES = [
    ((9, 7), 1, (9, 9), dict(strides=[3, 3], pads=[4, 4, 4, 4], output_padding=[2, 2])),
    ((5, 6), 3, (4, 4), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
    ((4, 5), 2, (3, 5), dict(strides=[2, 1], pads=[0, 1, 1, 2])),
    ((4, 5), 2, (7, 5), dict(strides=[2, 3], pads=[5, 1, 6, 4])),
    ((4, 5), 2, (2, 2), dict(strides=[3, 3])),
    ((4, 5), 2, (4, 4), dict(strides=[2, 2], auto_pad="SAME_UPPER")),
    ((4, 5), 2, (4, 4), dict(strides=[2, 2], output_shape=[9, 11])),
    ((4, 5), 2, (4, 4), dict(strides=[2, 2], dilations=[2, 1])),
    ((11,), 1, (16,), dict(strides=[8])),
    ((3, 4, 5), 2, (4, 4, 2), dict(strides=[2, 2, 2], pads=[1, 0, 0, 1, 1, 0])),
    ((1, 1), 40, (4, 4), {}),
    ((1, 1), 40, (4, 3), dict(strides=[2, 3], pads=[1, 0, 2, 1])),
    ((1, 1), 40, (4, 4), dict(output_padding=[0, 1], strides=[1, 2])),
    ((1, 6), 2, (4, 4), dict(strides=[2, 2], pads=[1, 1, 1, 1])),
]


def test_phases():
    batch = Batch(tolerance=2e-5)
    for sizes, filters, kernel, attributes in CASES:
        for images, bias in ((1, [Const(f32(filters))]), (2, [])):
            x = f32(images, 16, *sizes)
            batch.add(
                "ConvTranspose", [x, Const(f32(16, filters, *kernel) * 0.1), *bias], label=f"{sizes}", **attributes
            )
    batch.check()


def test_images_of_any_size():
    batch = Batch(tolerance=2e-5)
    runs = [f32(2, 16, *size) for size in [(4, 5), (1, 1), (7, 2)]]
    for kernel, pads in (((4, 4), [1, 1, 1, 1]), ((5, 4), [2, 0, 1, 1])):
        x = Sym(("N", 16, "H", "W"), runs)
        batch.add("ConvTranspose", [x, Const(f32(16, 2, *kernel)), Const(f32(2))], strides=[2, 2], pads=pads)
    batch.check()


def test_halves():
    batch = Batch(tolerance=4e-3)
    x, w, b = (a.astype(np.float16) for a in (f32(1, 16, 5, 6), f32(16, 3, 4, 4) * 0.1, f32(3)))
    batch.add("ConvTranspose", [x, Const(w), Const(b)], strides=[2, 2], pads=[1, 1, 1, 1])
    batch.check()
