"""onnxc: an ahead-of-time compiler from ONNX models to native code."""
