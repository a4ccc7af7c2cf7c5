"""Einsum as transposes, sums and matrix products, two operands at a time from the left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.compositions.registry import composes
from onnxc.passes.rewriting import Rewriter


@dataclass(frozen=True)
class Term:
    """A tensor and a label for each of its axes."""

    value: ir.Value
    labels: str

    def size(self, label: str) -> dims.Dim:
        return Tensor.of(self.value.type).dims[self.labels.index(label)]

    def sizes(self, labels: Iterable[str]) -> list[dims.Dim]:
        return [self.size(label) for label in labels]


@composes("Einsum")
def einsum(op: OnnxOp, g: Rewriter) -> ir.Value | None:
    """None (not compiled) for a label that is twice in one operand or has several sizes."""
    ranks = [Tensor.of(v.type).rank for v in op.operands]
    inputs, output = labelled(op.attr("equation").replace(" ", ""), ranks)
    terms = [Term(v, labels) for v, labels in zip(op.operands, inputs, strict=True)]
    if any(len(set(t.labels)) < len(t.labels) for t in terms) or len(set(output)) < len(output):
        return None
    if any(len({str(t.size(label)) for t in terms if label in t.labels}) > 1 for label in set("".join(inputs))):
        return None
    while len(terms) > 1:
        needed = set(output).union(*(t.labels for t in terms[2:]))
        terms = [product(g, terms[0], terms[1], needed), *terms[2:]]
    return ordered(g, summed(g, terms[0], set(output)), output).value


def labelled(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of every operand and of the result. An ellipsis becomes labels of its own, counted from the right."""
    left, arrow, output = equation.partition("->")
    parts = left.split(",")
    most = max([rank - len(p) + 3 for p, rank in zip(parts, ranks, strict=True) if "..." in p], default=0)
    rest = "".join(chr(0x3B1 + i) for i in range(most))  # Greek letters are no labels of ONNX
    found = []
    for part, rank in zip(parts, ranks, strict=True):
        count = rank - len(part) + 3
        found.append(part.replace("...", rest[most - count :] if count else ""))
    if not arrow:
        letters = "".join(found)
        output = rest + "".join(sorted(c for c in set(letters) - set(rest) if letters.count(c) == 1))
    return found, output.replace("...", rest)


def summed(g: Rewriter, term: Term, needed: set[str]) -> Term:
    """Sums over the labels that nothing else needs."""
    axes = [i for i, label in enumerate(term.labels) if label not in needed]
    if not axes:
        return term
    left = "".join(label for label in term.labels if label in needed)
    return Term(g.reshape(g.reduce("ReduceSum", term.value, axes), term.sizes(left)), left)


def ordered(g: Rewriter, term: Term, labels: str) -> Term:
    perm = [term.labels.index(label) for label in labels]
    return term if perm == sorted(perm) else Term(g.transpose(term.value, perm), labels)


def product(g: Rewriter, a: Term, b: Term, needed: set[str]) -> Term:
    """The matrix product over the labels that both have and nothing else needs; batched over those that others need."""
    a, b = summed(g, a, needed | set(b.labels)), summed(g, b, needed | set(a.labels))
    batch = "".join(label for label in a.labels if label in b.labels and label in needed)
    inner = "".join(label for label in a.labels if label in b.labels and label not in needed)
    rows = "".join(label for label in a.labels if label not in b.labels)
    columns = "".join(label for label in b.labels if label not in a.labels)
    stack, m, n, k = (dims.product(t.sizes(x)) for t, x in ((a, batch), (a, rows), (b, columns), (a, inner)))
    left = g.reshape(ordered(g, a, batch + rows + inner).value, [stack, m, k])
    right = g.reshape(ordered(g, b, batch + inner + columns).value, [stack, k, n])
    result = Tensor.of(left.type).of_shape((stack, m, n))
    total = g.one("MatMul", [left, right], result)
    return Term(g.reshape(total, [*a.sizes(batch + rows), *b.sizes(columns)]), batch + rows + columns)
