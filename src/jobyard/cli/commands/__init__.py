"""The commands, one module each, read only when it is called."""
