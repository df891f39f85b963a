"""The base class of transforms."""

from mmcv.transforms import BaseTransform


class Transform(BaseTransform):
    """A transform whose attributes are its arguments, by which it is printed."""

    def __repr__(self) -> str:
        arguments = (f'{name}={value}' for name, value in vars(self).items())
        return f'{type(self).__name__}({", ".join(arguments)})'
