"""Deciding, without doing: what a job is made of and what should exist for it.

Pure. A kind is lowered onto one common description (`description`), and everything
after that works on the description alone.
"""
