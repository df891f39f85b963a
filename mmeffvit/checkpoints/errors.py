"""The error of everything that concerns a checkpoint."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be found, read or fitted; the message names the cure."""
