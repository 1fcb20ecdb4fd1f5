"""`taskyard top`: the queue, live."""
