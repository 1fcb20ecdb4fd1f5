"""Several server processes on one machine, behind one gateway, that divide the namespaces (docs/processes.md)."""
