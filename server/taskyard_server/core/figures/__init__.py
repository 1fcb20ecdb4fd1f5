"""What the queue looks like from outside: demand, shares, order, and why a task waits."""
