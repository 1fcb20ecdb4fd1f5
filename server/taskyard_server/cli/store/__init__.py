"""`taskyard store`: check, back up, restore and copy what a server keeps."""
