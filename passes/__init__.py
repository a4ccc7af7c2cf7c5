"""The passes of onnxc, one file a pass; `compiler/pipeline.py` lists them in order."""
