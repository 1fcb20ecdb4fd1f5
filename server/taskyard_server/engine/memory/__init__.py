"""The embedded engine: everything in memory, one scheduler per namespace, all on one event loop."""
