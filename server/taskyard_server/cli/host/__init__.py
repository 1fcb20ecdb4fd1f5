"""`taskyard host`: the host of a program, and the processes that it runs in."""
