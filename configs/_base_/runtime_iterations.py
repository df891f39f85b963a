"""Logging and checkpoints of iteration-based runs; the rest is inherited from runtime.py."""

_base_ = './runtime.py'

default_hooks = dict(
    logger=dict(log_metric_by_epoch=False),
    checkpoint=dict(by_epoch=False, interval=4000),
)
log_processor = dict(by_epoch=False)
