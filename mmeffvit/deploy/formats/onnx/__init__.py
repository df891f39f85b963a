"""ONNX."""
