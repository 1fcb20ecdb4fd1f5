"""Records of each thing, and how those of an older version are read."""
