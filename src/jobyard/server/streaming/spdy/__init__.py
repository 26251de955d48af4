"""SPDY/3.1, as far as kubectl speaks it: frames as values, and a connection with its streams.

No HTTP is in it: the header blocks carry a few names and values that say what a stream is for.
"""
