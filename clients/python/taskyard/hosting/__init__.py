"""What a `Host` is made of: its stream, its leases, and the handlers that run under them."""
