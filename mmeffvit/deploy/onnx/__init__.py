"""Writing ONNX files."""
