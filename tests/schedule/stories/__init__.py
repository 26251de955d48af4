"""Queues, gangs and pods around the pure scheduler: random stories, and their rules."""
