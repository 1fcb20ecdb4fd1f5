"""Records that calls return: tasks, schedules, figures and the rest, as plain Python."""
