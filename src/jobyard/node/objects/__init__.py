"""Objects of the API server as the agent reads them, and what it remembers of pods."""
