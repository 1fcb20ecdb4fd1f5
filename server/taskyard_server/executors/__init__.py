"""Hosts in the server's process. They claim and report through the same engine calls as any other host."""
