"""This file infers shapes of operators on strings."""

from __future__ import annotations

from onnxc.dialects.shapes.broadcasting import broadcast_shapes
from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor

STRING = "!onnx.string"


@infers("StringConcat")
def string_concat(c: ShapeContext) -> list[Tensor]:
    return [Tensor(STRING, broadcast_shapes(c, c.shape(0), c.shape(1)))]


@infers("RegexFullMatch")
def regex_full_match(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0).of_elem("i1")]


@infers("StringNormalizer")
def string_normalizer(c: ShapeContext) -> list[Tensor]:
    x = c.ranked(0, 1, 2)
    return [Tensor(STRING, (*x[:-1], c.fresh("0") if c.attr("stopwords", None) else x[-1]))]


@infers("StringSplit")
def string_split(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    return [Tensor(STRING, (*x, c.fresh("0"))), Tensor("i64", x)]


@infers("TfIdfVectorizer")
def tf_idf(c: ShapeContext) -> list[Tensor]:
    x = c.ranked(0, 1, 2)
    return [Tensor("f32", (*x[:-1], max(c.attr("ngram_indexes", [0])) + 1))]
