"""The gateway: Envoy as a child process, what it is configured with, and the console page that it serves."""
