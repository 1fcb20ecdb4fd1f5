"""`taskyard doctor`: looks at what a person would when something is wrong, and says what to do about it."""
