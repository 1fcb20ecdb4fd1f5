"""Figures about the server: for Prometheus, for the console's charts and for the calls that tell them."""
