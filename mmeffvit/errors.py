"""Errors whose cure is in the hands of the user."""


class UserError(Exception):
    """Invalid input or argument; the message names the value, the choices and the cure."""


class CheckpointError(UserError, ValueError):
    """A checkpoint that cannot be found, read or fitted."""
