"""What should happen to a job now: one file per policy; `decide` is their table of contents."""
