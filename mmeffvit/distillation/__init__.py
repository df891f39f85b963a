"""Training of a backbone that imitates another one."""

from .maps import Agreement, MapDistillation, agreement

__all__ = ['Agreement', 'MapDistillation', 'agreement']
