"""Division of channels into heads."""


def check_heads(channels: int, num_heads: int) -> None:
    """Raise a ValueError if channels cannot be divided into heads."""
    if num_heads < 1 or channels % num_heads:
        raise ValueError(f'{channels} channels are not divisible into {num_heads} heads')
