"""`taskyard up`: the control plane in the foreground."""
