"""Structural schemas for any kind."""
