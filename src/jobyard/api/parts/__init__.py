"""What the kinds are put together from: run modes, policies, templates, statuses, values."""
