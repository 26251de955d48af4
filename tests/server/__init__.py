"""The embedded API server, with a real one as the judge."""
