"""The kinds: their types, their rules, and the one table that lists them.

Pure values. Nothing here reads a clock, a file or the network.
"""
