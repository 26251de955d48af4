"""What should happen to a job now, as tables and properties."""
