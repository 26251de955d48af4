"""Connections to an API server, through a proxy where there is one."""
