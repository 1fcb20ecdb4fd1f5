"""How commands fail."""


class Failure(Exception):
    """A command failed. The text is one line for the terminal."""
