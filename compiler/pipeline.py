"""THE list of passes, in order. Whatever happens to a model between import and code happens in one of these."""

from __future__ import annotations

from onnxc.passes.apply_choices import apply_choices
from onnxc.passes.apply_facts import apply_facts
from onnxc.passes.apply_objective import apply_objective
from onnxc.passes.check_types import check_types
from onnxc.passes.choose_schedules import choose_schedules
from onnxc.passes.compositions.registry import COMPOSITIONS
from onnxc.passes.contract import PassFunction
from onnxc.passes.decompose import decompose
from onnxc.passes.describe_kernels import describe_kernels
from onnxc.passes.emit_main import emit_main
from onnxc.passes.expand_conv_transpose import expand_conv_transpose
from onnxc.passes.expand_recurrent import expand_recurrent
from onnxc.passes.expand_resize import expand_resize
from onnxc.passes.fold_batch_norm import fold_batch_norm
from onnxc.passes.fold_constants import fold_constants
from onnxc.passes.free_loop_states import free_loop_states
from onnxc.passes.fuse_attention import fuse_attention
from onnxc.passes.fusion_rules import STAYS, VIEWS
from onnxc.passes.group_operators import group_operators
from onnxc.passes.infer_shapes import check_shapes, infer_shapes
from onnxc.passes.innermost_softmax import innermost_softmax
from onnxc.passes.interleave_kernels import interleave_kernels
from onnxc.passes.join_in_place import join_in_place
from onnxc.passes.kernels.kinds import ROOTS
from onnxc.passes.lowering.registry import ELEMENTWISE, MOVES
from onnxc.passes.merge_equal import merge_equal
from onnxc.passes.order_for_memory import order_for_memory
from onnxc.passes.outline_kernels import outline_kernels
from onnxc.passes.override_precision import override_precision
from onnxc.passes.override_schedules import override_schedules
from onnxc.passes.pack_weights import pack_weights
from onnxc.passes.plan_memory import plan_memory
from onnxc.passes.recognise import recognise
from onnxc.passes.recognise_attention import recognise_attention
from onnxc.passes.remove_dead import remove_dead
from onnxc.passes.scan_to_loop import scan_to_loop
from onnxc.passes.share_layouts import share_layouts
from onnxc.passes.simplify import simplify
from onnxc.passes.split_kernels import split_kernels
from onnxc.passes.to_nhwc import to_nhwc
from onnxc.passes.unfuse_attention import unfuse_attention
from onnxc.passes.use_fft import use_fft
from onnxc.passes.use_im2col import use_im2col
from onnxc.passes.use_winograd import use_winograd
from onnxc.passes.widen_halves import widen_halves

#: operators that some pass replaces before kernels are formed
REWRITTEN = frozenset({
    "AveragePool", "BatchNormalization", "CastLike", "Conv", "ConvTranspose", "DepthToSpace", "Dropout", "GRU",
    "GlobalAveragePool", "GlobalMaxPool", "LSTM", "MaxPool", "NonMaxSuppression", "RNN", "Resize", "Scan",
    "SpaceToDepth", "Split",
})  # fmt: skip

#: level → the passes that work on it, the last one giving the next level
PIPELINE: dict[str, tuple[PassFunction, ...]] = {
    "graph": (
        apply_facts,
        scan_to_loop,
        free_loop_states,
        infer_shapes,
        check_types,
        override_precision,
        fold_constants,
        simplify,
        merge_equal,
        decompose,
        infer_shapes,
        fold_batch_norm,
        recognise,
        recognise_attention,
        remove_dead,
        widen_halves,
        fuse_attention,
        expand_recurrent,
        expand_conv_transpose,
        to_nhwc,
        fold_constants,
        simplify,
        infer_shapes,
        check_shapes,
        apply_choices,
        apply_objective,
        unfuse_attention,
        use_winograd,
        use_fft,
        use_im2col,
        expand_resize,
        innermost_softmax,
        merge_equal,
        remove_dead,
        override_schedules,
        group_operators,
    ),
    "tensor": (join_in_place, outline_kernels),
    "kernels": (
        split_kernels,
        choose_schedules,
        share_layouts,
        pack_weights,
        interleave_kernels,
        order_for_memory,
        plan_memory,
        describe_kernels,
        emit_main,
    ),
}


def has_lowering(name: str) -> bool:
    """Whether operator `name` ("Relu", "ml.Scaler") is compiled as it is; others are unfolded into their definition."""
    tables = (ELEMENTWISE, MOVES, REWRITTEN, COMPOSITIONS)
    return any(name in table for table in tables) or f"onnx.{name}" in {*ROOTS, *VIEWS, *STAYS}
