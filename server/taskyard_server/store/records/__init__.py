"""What is kept of each thing, and how it is read again from what an older version kept."""
