"""This file spells out the internal channels-last ops with the onnx ops they stand for, for the interpreter."""
