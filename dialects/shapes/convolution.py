"""This file infers shapes of convolutions of all kinds."""

from __future__ import annotations

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.shapes.windows import transposed_shape, window_shape
from onnxc.dialects.types import Tensor


def convolved(c: ShapeContext, x: tuple[Dim, ...], w: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of a convolution of `x` [N, C, …] with `w` [M, C/group, …]."""
    if len(x) < 3 or len(x) != len(w):
        raise IllegalShape(f"input of rank {len(x)} and weights of rank {len(w)}: both need one batch and one channel "
                           "axis and the same spatial axes")  # fmt: skip
    group = c.attr("group", 1)
    c.same_size(0, 1, w[1] * group, "input channels")
    c.divides(w[0], group, "the output channels")
    kernel = [c.same(given, found, "kernel_shape") for given, found in zip(_kernel(c, w), w[2:], strict=True)]
    return (x[0], w[0], *window_shape(c, x[2:], kernel))


def _kernel(c: ShapeContext, w: tuple[Dim, ...]) -> list[Dim]:
    given = c.attr("kernel_shape", None)
    if given and len(given) != len(w) - 2:
        raise IllegalShape(f"kernel_shape has {len(given)} entries for {len(w) - 2} spatial axes")
    return list(given or w[2:])


@infers("Conv", "microsoft.FusedConv")
def conv(c: ShapeContext) -> list[Tensor]:
    result = convolved(c, c.shape(0), c.shape(1))
    if c.has(2):
        c.same(c.ranked(2, 1)[0], result[1], "bias")
    return [Tensor(c.elem(0), result)]


@infers("ConvInteger")
def conv_integer(c: ShapeContext) -> list[Tensor]:
    return [Tensor("i32", convolved(c, c.shape(0), c.shape(1)))]


@infers("QLinearConv")
def qlinear_conv(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(7), convolved(c, c.shape(0), c.shape(3)))]


@infers("ConvTranspose")
def conv_transpose(c: ShapeContext) -> list[Tensor]:
    x, w = c.shape(0), c.shape(1)
    if len(x) < 3 or len(x) != len(w):
        raise IllegalShape(f"input of rank {len(x)} and weights of rank {len(w)}")
    c.same_size(0, 1, w[0], "input channels")
    channels = w[1] * c.attr("group", 1)
    if c.has(2):
        c.same(c.ranked(2, 1)[0], channels, "bias")
    return [Tensor(c.elem(0), (x[0], channels, *transposed_shape(c, x[2:], _kernel(c, w))))]


@infers("DeformConv")
def deform_conv(c: ShapeContext) -> list[Tensor]:
    x, w = c.shape(0), c.shape(1)
    c.same_size(0, 1, w[1] * c.attr("group", 1), "input channels")
    return [Tensor(c.elem(0), (x[0], w[0], *window_shape(c, x[2:], _kernel(c, w))))]


@infers("CausalConvWithState")
def causal_conv(c: ShapeContext) -> list[Tensor]:
    x, w = c.ranked(0, 3), c.shape(1)
    return [c.tensor(0), Tensor(c.elem(0), (x[0], x[1], w[-1] - 1))]


@infers("Col2Im")
def col2im(c: ShapeContext) -> list[Tensor]:
    columns = c.ranked(0, 3)
    image, block = c.sizes(1), c.sizes(2)
    c.same(columns[2], dims.product(window_shape(c, image, block)), "number of blocks")
    return [Tensor(c.elem(0), (columns[0], columns[1] // dims.product(block), *image))]
