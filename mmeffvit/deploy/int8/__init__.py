"""int8 quantization of ONNX and LiteRT files."""
