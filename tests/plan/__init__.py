"""What a job is made of, and what is said of it."""
