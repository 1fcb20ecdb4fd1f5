"""The server as one program: what it consists of, how it starts, drains and stops, and how it is embedded."""
