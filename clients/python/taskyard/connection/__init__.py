"""How a server is reached: addresses, channels, credentials, and which of several is called."""
