"""The only code that speaks to an API server: requests as values, and what sends them."""
