"""Engines of `jobyard run`, what they run, and what they leave."""
