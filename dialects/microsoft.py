"""This file declares the schemas of the com.microsoft operators that models use and the onnx package does not know.

Sources: onnxruntime's docs/ContribOperators.md. One line an operand or attribute; the table is open.
"""

from __future__ import annotations

from onnx.defs import OpSchema
from onnx.helper import make_attribute

DOMAIN = "com.microsoft"

_FLOATS = ["tensor(float)", "tensor(float16)", "tensor(double)", "tensor(bfloat16)"]
_EIGHT = ["tensor(int8)", "tensor(uint8)"]
_TYPES = {
    "T": _FLOATS,
    "I": ["tensor(int32)", "tensor(int64)"],
    "I32": ["tensor(int32)"],
    "Q": _EIGHT,
    "Q1": _EIGHT,
    "Q2": _EIGHT,
    "Q3": _EIGHT,
    "F": ["tensor(float)"],
    "S": ["tensor(string)"],
    "M": ["tensor(int32)", "tensor(int64)", "tensor(float)", "tensor(bool)"],
}

# op -> (operands, results, attributes). "name:T" is required, "name?:T" optional, "name*:T" variadic;
# an attribute maps to its default, or to its kind when it has none (and may be absent).
_TABLE: dict[str, tuple[str, str, dict[str, object]]] = {
    "Gelu": ("X:T", "Y:T", {}),
    "QuickGelu": ("X:T", "Y:T", {"alpha": 1.702}),
    "FastGelu": ("X:T bias?:T", "Y:T", {}),
    "BiasGelu": ("A:T B:T", "C:T", {}),
    "FusedMatMul": (
        "A:T B:T",
        "Y:T",
        {"alpha": 1.0, "transA": 0, "transB": 0, "transBatchA": 0, "transBatchB": 0},
    ),
    "FusedGemm": (
        "A:T B:T C?:T",
        "Y:T",
        {
            "alpha": 1.0,
            "beta": 1.0,
            "transA": 0,
            "transB": 0,
            "activation": "",
            "activation_alpha": 0.0,
            "activation_beta": 0.0,
            "activation_gamma": 0.0,
        },
    ),
    "FusedConv": (
        "X:T W:T B?:T Z?:T",
        "Y:T",
        {
            "auto_pad": "NOTSET",
            "dilations": OpSchema.AttrType.INTS,
            "group": 1,
            "kernel_shape": OpSchema.AttrType.INTS,
            "pads": OpSchema.AttrType.INTS,
            "strides": OpSchema.AttrType.INTS,
            "activation": "",
            "activation_params": OpSchema.AttrType.FLOATS,
        },
    ),
    "LayerNormalization": (
        "X:T Scale:T B?:T",
        "Y:T Mean?:F InvStdDev?:F",
        {"axis": -1, "epsilon": 1e-5, "stash_type": 1},
    ),
    "SkipLayerNormalization": (
        "input:T skip:T gamma:T beta?:T bias?:T",
        "output:T mean?:F inv_std_var?:F input_skip_bias_sum?:T",
        {"epsilon": 1e-12},
    ),
    "EmbedLayerNormalization": (
        "input_ids:I32 segment_ids?:I32 word_embedding:T position_embedding:T segment_embedding?:T gamma:T beta:T "
        "mask?:I32 position_ids?:I32",
        "output:T mask_index?:I32 embedding_sum?:T",
        {"epsilon": 1e-12, "mask_index_type": 0},
    ),
    "Attention": (
        "input:T weights:T bias?:T mask_index?:I32 past?:T attention_bias?:T past_sequence_length?:I32",
        "output:T present?:T",
        {
            "num_heads": OpSchema.AttrType.INT,
            "unidirectional": 0,
            "mask_filter_value": -10000.0,
            "scale": OpSchema.AttrType.FLOAT,
            "do_rotary": 0,
            "rotary_embedding_dim": 0,
            "past_present_share_buffer": 0,
            "qkv_hidden_sizes": OpSchema.AttrType.INTS,
        },
    ),
    "DynamicQuantizeLSTM": (
        "X:F W:Q R:Q B?:F sequence_lens?:I32 initial_h?:F initial_c?:F P?:F W_scale:F W_zero_point:Q R_scale:F "
        "R_zero_point:Q",
        "Y?:F Y_h?:F Y_c?:F",
        {
            "activation_alpha": OpSchema.AttrType.FLOATS,
            "activation_beta": OpSchema.AttrType.FLOATS,
            "activations": OpSchema.AttrType.STRINGS,
            "clip": OpSchema.AttrType.FLOAT,
            "direction": "forward",
            "hidden_size": OpSchema.AttrType.INT,
            "input_forget": 0,
        },
    ),
    "DynamicQuantizeMatMul": ("A:F B:Q b_scale:F b_zero_point?:Q bias?:F", "Y:F", {}),
    "MatMulIntegerToFloat": (
        "A:Q1 B:Q2 a_scale:F b_scale:F a_zero_point?:Q1 b_zero_point?:Q2 bias?:F",
        "Y:F",
        {},
    ),
    **{
        name: (
            "A:Q A_scale:F A_zero_point?:Q B:Q B_scale:F B_zero_point?:Q C_scale:F C_zero_point?:Q",
            "C:Q",
            {},
        )
        for name in ("QLinearAdd", "QLinearMul")
    },
    **{
        name: ("X:Q X_scale:F X_zero_point?:Q Y_scale:F Y_zero_point?:Q", "Y:Q", attributes)
        for name, attributes in {
            "QLinearSigmoid": {},
            "QLinearLeakyRelu": {"alpha": 0.01},
            "QLinearGlobalAveragePool": {"channels_last": 0},
        }.items()
    },
    "QLinearConcat": ("Y_scale:F Y_zero_point:Q inputs*:*", "Y:Q", {"axis": OpSchema.AttrType.INT}),
    "Tokenizer": (
        "X:S",
        "Y:S",
        {
            "mark": OpSchema.AttrType.INT,
            "mincharnum": OpSchema.AttrType.INT,
            "pad_value": OpSchema.AttrType.STRING,
            "separators": OpSchema.AttrType.STRINGS,
            "tokenexp": OpSchema.AttrType.STRING,
            "stopwords": OpSchema.AttrType.STRINGS,
        },
    ),
}


def schemas() -> dict[str, OpSchema]:
    """Every declared com.microsoft operator as a schema like those of the onnx package."""
    return {name: _schema(name, *row) for name, row in _TABLE.items()}


def _schema(name: str, operands: str, results: str, attributes: dict[str, object]) -> OpSchema:
    used = {t for t in _TYPES if f":{t} " in f"{operands} {results} "}
    return OpSchema(
        name,
        DOMAIN,
        1,
        inputs=[_formal(text) for text in operands.split()],
        outputs=[_formal(text) for text in results.split()],
        type_constraints=[(t, _TYPES[t], "") for t in sorted(used)],
        attributes=[
            OpSchema.Attribute(key, value, required=False)
            if isinstance(value, OpSchema.AttrType)
            else OpSchema.Attribute(key, make_attribute(key, value))
            for key, value in attributes.items()
        ],
    )


def _formal(text: str) -> OpSchema.FormalParameter:
    name, type_name = text.split(":")
    option = OpSchema.FormalParameterOption
    kind = {"?": option.Optional, "*": option.Variadic}.get(name[-1], option.Single)
    if type_name == "*":  # members of several types
        type_name = "tensor(float)"
    return OpSchema.FormalParameter(
        name.rstrip("?*"), type_name, param_option=kind, is_homogeneous=kind != option.Variadic
    )
