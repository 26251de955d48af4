"""Logs of containers on disk: written by supervisors, read for people."""
