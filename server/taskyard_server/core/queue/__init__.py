"""The queue, and the order in which it is handed out: by priority, by fair share, by key and by rate."""
