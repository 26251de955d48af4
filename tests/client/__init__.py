"""What speaks to an API server, with a real one."""
