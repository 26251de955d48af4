"""What a job says about itself: rows, conditions, the status as a whole, events, advice."""
