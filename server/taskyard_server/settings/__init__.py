"""The settings: one model, its sections, and where their values come from."""
