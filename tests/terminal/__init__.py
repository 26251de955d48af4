"""Texts on a terminal."""
