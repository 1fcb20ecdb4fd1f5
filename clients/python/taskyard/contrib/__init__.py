"""Connections of Taskyard with other libraries. Each module needs the extra of its name."""
