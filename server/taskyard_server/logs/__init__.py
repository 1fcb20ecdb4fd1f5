"""What the server writes down: its log, and who changed what."""
