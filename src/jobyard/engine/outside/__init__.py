"""The way from sandboxes to the world outside, through a proxy of the engine."""
