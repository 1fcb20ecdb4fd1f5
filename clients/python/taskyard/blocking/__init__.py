"""The client for code without asyncio, made of the other one."""
