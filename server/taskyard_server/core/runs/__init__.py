"""Output and artifacts: all that a run leaves behind, so that it may end at any time and begin again."""
