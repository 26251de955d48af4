"""Kubernetes' own kinds that the server serves, one small module per kind or family."""
