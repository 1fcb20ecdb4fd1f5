"""Webhooks: tasks that have ended are posted to the addresses that their agents gave."""
