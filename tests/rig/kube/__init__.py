"""A real Kubernetes for the tests, and what plays its nodes."""
