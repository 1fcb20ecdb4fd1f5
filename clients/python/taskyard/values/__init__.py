"""How plain Python becomes messages and JSON, and comes back."""
