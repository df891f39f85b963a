"""Synchronized batch norms in distributed runs on GPUs, beside a schedule that does not say so."""

sync_bn = 'torch'  # on CPUs: `--cfg-options sync_bn=None`
