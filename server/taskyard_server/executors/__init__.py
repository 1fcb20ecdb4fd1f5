"""Hosts that live in the server process. They claim and report through the same engine calls as any other host."""
