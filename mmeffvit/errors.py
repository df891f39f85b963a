"""Errors that the user can fix."""


class UserError(Exception):
    """Invalid input or argument; the message names the value, the choices and the fix."""


class CheckpointError(UserError, ValueError):
    """A checkpoint that cannot be found or read, or does not fit the model."""
