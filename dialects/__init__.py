"""The dialects onnxc works on: `onnx`, derived from onnx's schemas, and `kernel`, written by hand."""
