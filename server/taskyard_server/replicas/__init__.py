"""Replicas: servers that share a store, and divide its namespaces among them (docs/operate/scaling.md)."""
