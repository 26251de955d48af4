"""Engines of `jobyard run`: how one starts, is spoken with, is left and is taken up again."""
