"""LSTM, GRU and RNN against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.oracle import Batch, Const, Sym, difference, f32, run_compiled, run_reference

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def cell(op: str, features: int, hidden: int, directions: int, bias: bool = True, constant: bool = True) -> list:
    gates = GATES[op]
    arrays = [
        f32(directions, gates * hidden, features) * 0.4,
        f32(directions, gates * hidden, hidden) * 0.4,
        f32(directions, 2 * gates * hidden) * 0.4,
    ]
    parts = [Const(a) if constant else a for a in arrays]
    return parts if bias else [*parts[:2], None]


def states(op: str, directions: int, batch: int, hidden: int) -> list[np.ndarray]:
    return [f32(directions, batch, hidden) for _ in range(2 if op == "LSTM" else 1)]


@pytest.mark.parametrize("op", GATES)
def test_directions(op):
    batch = Batch(tolerance=3e-6)
    results = 3 if op == "LSTM" else 2
    for direction, n in DIRECTIONS.items():
        common = {"hidden_size": 20, "direction": direction, "outputs": results}
        batch.add(op, [f32(5, 3, 7), *cell(op, 7, 20, n)], **common)
        batch.add(
            op,
            [f32(5, 3, 7), *cell(op, 7, 20, n), None, *states(op, n, 3, 20)],
            label=f"{direction} with states",
            **common,
        )
        lengths = np.array([5, 1, 2], np.int32)
        batch.add(
            op,
            [f32(5, 3, 7), *cell(op, 7, 20, n), lengths, *states(op, n, 3, 20)],
            label=f"{direction} with lengths",
            **common,
        )
    batch.check()


@pytest.mark.parametrize("op", GATES)
def test_sizes_and_options(op):
    batch = Batch(tolerance=3e-6)
    for hidden in (1, 8, 16, 33, 100):
        batch.add(op, [f32(3, 2, 5), *cell(op, 5, hidden, 1)], hidden_size=hidden, outputs=2)
    batch.add(op, [f32(3, 2, 5), *cell(op, 5, 9, 1, bias=False)], hidden_size=9, label="no bias")
    batch.add(op, [f32(3, 2, 5), *cell(op, 5, 9, 1, constant=False)], hidden_size=9, label="weights at run time")
    batch.add(op, [f32(3, 2, 5), *cell(op, 5, 9, 1)], hidden_size=9, outputs=[False, True], label="last state only")
    batch.add(op, [f32(3, 2, 5) * 4, *cell(op, 5, 9, 1)], hidden_size=9, clip=0.5, label="clip")
    batch.add(op, [f32(1, 1, 5), *cell(op, 5, 9, 1)], hidden_size=9, label="one step")
    batch.check()


def test_symbolic():
    batch = Batch(tolerance=3e-6)
    for op in GATES:
        xs = [f32(s, n, 6) for s, n in [(4, 2), (1, 1), (9, 5)]]
        batch.add(
            op,
            [Sym(("S", "N", 6), xs), *cell(op, 6, 12, 2)],
            hidden_size=12,
            direction="bidirectional",
            outputs=2,
            label=f"{op} symbolic",
        )
    batch.check()


@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
@pytest.mark.parametrize("op", GATES)
def test_items_share_weights(op, mcpu):
    """Items of a batch are computed some at a time, so batches end amid them; each has the bits it has alone."""
    common = {"hidden_size": 20, "direction": "bidirectional", "outputs": 2}
    weights = cell(op, 6, 20, 2)
    batch = Batch()
    xs = [f32(4, n, 6) for n in (7, 1, 3)]
    batch.add(op, [Sym(("S", "N", 6), [*xs, *np.split(xs[0], 7, axis=1)]), *weights], **common)
    batch.add(op, [xs[0], *weights], **common)
    lengths = np.array([2, 4, 0, 3, 4, 1, 2], np.int32)
    batch.add(op, [xs[0], *weights, lengths], **common)
    model, feeds = batch.model(), batch.feeds
    runs = [{name: r[min(i, len(r) - 1)] for name, r in feeds.items()} for i in range(10)]
    ours = run_compiled(model, runs, mcpu=mcpu)
    for got, want in zip(ours[:3], run_reference(model, runs[:3]), strict=True):
        assert not any(filter(None, (difference(g, w, 3e-6) for g, w in zip(got, want, strict=True))))
    alone = np.concatenate([run[0] for run in ours[3:]], axis=2)
    assert np.array_equal(ours[0][0], alone)
    assert np.array_equal(ours[0][2], alone)


def test_lstm_options():
    batch = Batch(tolerance=3e-6)
    x, n = f32(4, 2, 5), 9
    peepholes = Const(f32(1, 3 * n) * 0.4)
    batch.add(
        "LSTM",
        [x, *cell("LSTM", 5, n, 1), None, *states("LSTM", 1, 2, n), peepholes],
        hidden_size=n,
        outputs=3,
        label="peepholes",
    )
    batch.add("LSTM", [x, *cell("LSTM", 5, n, 1)], hidden_size=n, outputs=3, input_forget=1)
    batch.add(
        "LSTM",
        [x, *cell("LSTM", 5, n, 1)],
        hidden_size=n,
        outputs=3,
        activations=["HardSigmoid", "Softsign", "Relu"],
        activation_alpha=[0.3],
        activation_beta=[0.4],
    )
    batch.add(
        "LSTM",
        [x, *cell("LSTM", 5, n, 2)],
        hidden_size=n,
        outputs=3,
        direction="bidirectional",
        activations=["Sigmoid", "Tanh", "Tanh", "HardSigmoid", "Tanh", "Elu"],
    )
    batch.check()


def test_gru_options():
    batch = Batch(tolerance=3e-6)
    for direction, d in DIRECTIONS.items():
        batch.add(
            "GRU",
            [f32(4, 2, 5), *cell("GRU", 5, 20, d)],
            hidden_size=20,
            direction=direction,
            linear_before_reset=1,
            outputs=2,
        )
    batch.add("GRU", [f32(4, 2, 5), *cell("GRU", 5, 9, 1, bias=False)], hidden_size=9, linear_before_reset=1, outputs=2)
    batch.add(
        "GRU",
        [f32(4, 2, 5), *cell("GRU", 5, 9, 1)],
        hidden_size=9,
        activations=["HardSigmoid", "LeakyRelu"],
        activation_alpha=[0.3, 0.1],
        activation_beta=[0.4],
        outputs=2,
    )
    batch.check()


def test_rnn_activations():
    batch = Batch(tolerance=3e-6)
    for name in [
        "Relu",
        "Sigmoid",
        "Softsign",
        "Softplus",
        "LeakyRelu",
        "ThresholdedRelu",
        "ScaledTanh",
        "HardSigmoid",
        "Elu",
        "Affine",
    ]:
        batch.add(
            "RNN",
            [f32(3, 2, 5), *cell("RNN", 5, 9, 1)],
            hidden_size=9,
            outputs=2,
            activations=[name],
            activation_alpha=[0.3],
            activation_beta=[0.7],
        )
    batch.check()
