"""int8 quantization of ONNX files."""
