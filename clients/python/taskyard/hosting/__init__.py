"""The parts of a `Host`: its stream, its leases, and the handlers that run under them."""
