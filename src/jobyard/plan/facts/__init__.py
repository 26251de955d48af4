"""What is known about a job: its pods, how each replica stands, how attempts ended and why."""
