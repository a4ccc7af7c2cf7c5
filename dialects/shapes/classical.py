"""This file infers shapes of the ai.onnx.ml operators: trees, linear models, encoders."""

from __future__ import annotations

import numpy as np

from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import element_of


@infers("ml.Binarizer", "ml.Imputer")
def keep(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0)]


@infers("ml.Normalizer", "ml.Scaler")
def to_float(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0).of_elem("f32")]


@infers("ml.LabelEncoder")
def label_encoder(c: ShapeContext) -> list[Tensor]:
    for name, elem in {"values_strings": "!onnx.string", "values_int64s": "i64", "values_floats": "f32"}.items():
        if c.attr(name, None):
            return [c.tensor(0).of_elem(elem)]
    value = c.attr("values_tensor", None)
    return _declared(c) if value is None else [c.tensor(0).of_elem(element_of(np.asarray(value).dtype))]


@infers("ml.CategoryMapper")
def category_mapper(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0).of_elem("i64" if c.elem(0) == "!onnx.string" else "!onnx.string")]


@infers("ml.ArrayFeatureExtractor")
def array_feature_extractor(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    return [Tensor(c.elem(0), ((1,) if len(x) == 1 else x[:-1]) + (c.tensor(1).numel,))]


@infers("ml.FeatureVectorizer")
def feature_vectorizer(c: ShapeContext) -> list[Tensor]:
    width: Dim = 0
    for index in range(len(c.types)):
        width = c.shape(index)[-1] + width
    return [Tensor("f32", (_rows(c.shape(0)), width))]


@infers("ml.OneHotEncoder")
def one_hot_encoder(c: ShapeContext) -> list[Tensor]:
    count = len(c.attr("cats_int64s", None) or c.attr("cats_strings", None) or [])
    return [Tensor("f32", (*c.shape(0), count))]


@infers("ml.LinearRegressor", "ml.SVMRegressor", "ml.TreeEnsembleRegressor")
def regressor(c: ShapeContext) -> list[Tensor]:
    count = 1 if c.name == "ml.SVMRegressor" else c.attr("targets", None) or c.attr("n_targets", 1)
    return [Tensor("f32", (_rows(c.shape(0)), count))]


@infers("ml.TreeEnsemble")
def tree_ensemble(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), (_rows(c.shape(0)), c.attr("n_targets", 1)))]


@infers("ml.LinearClassifier", "ml.SVMClassifier", "ml.TreeEnsembleClassifier")
def classifier(c: ShapeContext) -> list[Tensor]:
    strings = c.attr("classlabels_strings", None)
    ints = c.attr("classlabels_int64s", None) or c.attr("classlabels_ints", None)
    rows = _rows(c.shape(0))
    label = Tensor("!onnx.string" if strings else "i64", (rows,))
    return [label, Tensor("f32", (rows, _scores(c, len(strings or ints or []))))]


def _scores(c: ShapeContext, classes: int) -> int:
    """One score a class; without labels, as many as there are coefficients or weights."""
    if classes:
        return classes
    if c.name == "ml.LinearClassifier":
        return len(c.attr("intercepts", None) or [0])
    return max(c.attr("class_ids", None) or [1]) + 1


def _rows(shape: tuple[Dim, ...]) -> Dim:
    return shape[0] if len(shape) > 1 else 1


def _declared(c: ShapeContext) -> list[Tensor]:
    return [tensor for tensor in c.declared if tensor is not None]
