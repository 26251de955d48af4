"""Structural schemas: what an object may look like, for any kind.

The bottom layer. It derives a schema from typed values, and gives the verdict that
a Kubernetes API server would give on an object: pruning, defaulting, validation, CEL
rules. It knows no kind of ours, so the embedded API server can serve a user's own
CRDs with it.
"""
