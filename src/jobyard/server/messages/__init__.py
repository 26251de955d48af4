"""Requests and answers: what a client may send, and how objects look on the wire."""
