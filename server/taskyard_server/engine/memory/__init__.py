"""The engine that keeps everything in memory: one scheduler per namespace, driven from one event loop."""
