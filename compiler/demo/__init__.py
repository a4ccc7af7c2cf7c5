"""The demo that ships with onnxc: a convnet that reads handwritten digits, its training script and ten real scans."""
