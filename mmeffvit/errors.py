"""Errors that the user can fix."""


class UserError(Exception):
    """Invalid input or argument; the message names the value, the choices and the fix.

    Args:
        message: One line.
        lines: Lines that follow it, such as a list of faults.
    """

    def __init__(self, message: str = '', *lines: str) -> None:
        super().__init__(message, *lines)

    def __str__(self) -> str:
        return '\n'.join(map(str, self.args))


class CheckpointError(UserError, ValueError):
    """A checkpoint that cannot be found or read, or does not fit the model."""
