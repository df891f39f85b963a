"""ONNX files: writing them, and comparing them with the model."""
