"""Sockets and certificates: where the server listens, who may reach that, and what it presents there."""
