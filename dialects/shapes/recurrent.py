"""This file infers shapes of LSTM, GRU and RNN."""

from __future__ import annotations

from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("LSTM", "GRU", "RNN", "microsoft.DynamicQuantizeLSTM")
def recurrent(c: ShapeContext) -> list[Tensor]:
    x, recurrence = c.ranked(0, 3), c.ranked(2, 3)
    batch_first = bool(c.attr("layout", 0))
    steps, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    directions = 2 if c.attr("direction", "forward") == "bidirectional" else 1
    quantized = c.name == "microsoft.DynamicQuantizeLSTM"  # its weights are stored transposed
    hidden = c.attr("hidden_size", None) or recurrence[1 if quantized else 2]
    c.same(recurrence[0], directions, "directions of the weights")
    c.same(recurrence[1 if quantized else 2], hidden, "hidden_size and the weights")
    if not quantized:
        c.same(c.ranked(1, 3)[2], x[2], "features of the input and the weights")
    if batch_first:
        every, last = (batch, steps, directions, hidden), (batch, directions, hidden)
    else:
        every, last = (steps, directions, batch, hidden), (directions, batch, hidden)
    for index, whole in ((5, last), (6, last)):
        if c.has(index):
            for axis, (a, b) in enumerate(zip(c.ranked(index, 3), whole, strict=True)):
                c.same(a, b, f"axis {axis} of initial state {index - 5}")
    if c.has(4):
        c.same(c.ranked(4, 1)[0], batch, "sequence_lens and the batch")
    elem = c.elem(0)
    return [Tensor(elem, every), Tensor(elem, last), Tensor(elem, last)]
