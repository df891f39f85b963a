"""GFLite with SHViT-S2, 200 epochs on COCO at 416 x 416.

The recipe is SSDLite's: see gflite_shvit_s1.py.
"""

_base_ = ['./gflite_shvit_s2.py', '_base_/datasets/at_416.py']

train_dataloader = dict(dataset=dict(pipeline={{_base_.train_pipeline_416}}))
val_dataloader = dict(dataset=dict(pipeline={{_base_.test_pipeline_416}}))
test_dataloader = val_dataloader
