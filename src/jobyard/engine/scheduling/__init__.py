"""The scheduler's shell: what it watches, binds and tells."""
