"""The store in PostgreSQL, which replicas share."""
