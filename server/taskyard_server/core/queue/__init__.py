"""What waits, and in which order it is handed out: by priority, by fair share, by key and by rate."""
