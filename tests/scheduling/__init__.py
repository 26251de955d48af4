"""A world of queues, gangs and pods around the pure scheduler, for random stories and their rules."""
