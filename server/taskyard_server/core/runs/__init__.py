"""Output, artifacts and inputs: all that a run leaves behind, so that it may end at any time and begin again."""
