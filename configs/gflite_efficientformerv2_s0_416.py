"""GFLite with EfficientFormerV2-S0, 200 epochs on COCO at 416 x 416.

The recipe is SSDLite's: see gflite_efficientformerv2_s0.py.
"""

_base_ = ['./gflite_efficientformerv2_s0.py', '_base_/datasets/at_416.py']

model = dict(backbone=dict(resolution=416))
train_dataloader = dict(dataset=dict(pipeline={{_base_.train_pipeline_416}}))
val_dataloader = dict(dataset=dict(pipeline={{_base_.test_pipeline_416}}))
test_dataloader = val_dataloader
