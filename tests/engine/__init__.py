"""The embedded engine, started as people start it."""
