"""The log of the server, and the audit log."""
