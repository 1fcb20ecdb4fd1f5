"""Errors of a yard in which a test cannot go on."""


class YardError(Exception):
    """The yard cannot do what the test asks for."""


class StillRunning(YardError, TimeoutError):
    """The yard does not come to rest: a handler does not end, or a host is not connected."""
