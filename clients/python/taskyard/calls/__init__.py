"""The unary calls of a client, a module for each group, and when they are repeated."""
