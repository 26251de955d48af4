"""One lowering per kind: from its own spec to the common description."""
