"""Mistakes that a user can mend."""


class UserError(Exception):
    """Something the user can mend; the message names the value, the choices and the cure."""
