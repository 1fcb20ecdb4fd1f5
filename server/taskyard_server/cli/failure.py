"""How commands fail."""


class Failure(Exception):
    """What went wrong, in one line for the person at the terminal."""
