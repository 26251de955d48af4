"""What is said about jobs."""
