"""The server of Taskyard: a control plane that queues, leases and tracks tasks."""
