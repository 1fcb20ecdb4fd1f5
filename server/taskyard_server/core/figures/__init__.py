"""The queue from outside: demand, shares, order, and why a task waits."""
