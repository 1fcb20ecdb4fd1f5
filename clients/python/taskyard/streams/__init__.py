"""Streams that a client keeps open: the stream of submissions, watches, and who waits for them."""
