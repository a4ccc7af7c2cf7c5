"""What a model says of itself, as the artefact will repeat it (`session.get_modelmeta()`, `onnxc inspect`)."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import ModelProto


def metadata_of(model: ModelProto, opsets: Mapping[str, int]) -> dict[str, str]:
    """Who made it and with what, under `model.…`; the model's own entries under their own keys. Only what is set."""
    facts = {
        "model.producer_name": model.producer_name,
        "model.producer_version": model.producer_version,
        "model.graph_name": model.graph.name,
        "model.graph_description": model.graph.doc_string,
        "model.description": model.doc_string,
        "model.domain": model.domain,
        "model.version": str(model.model_version) if model.model_version else "",
        "model.opsets": ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in sorted(opsets.items())),
        "model.ir_version": str(model.ir_version) if model.ir_version else "",
    }
    own = {prop.key: prop.value for prop in model.metadata_props}
    return {_readable(key): _readable(text) for key, text in {**own, **facts}.items() if text}


def _readable(text: str | bytes) -> str:
    """protobuf gives bytes for what is not UTF-8, and C strings end at a zero byte."""
    return (text if isinstance(text, str) else text.decode(errors="replace")).replace("\0", "\\0")
