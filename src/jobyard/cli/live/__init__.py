"""What commands show of jobs while they run: submitting them, their logs, a live table."""
