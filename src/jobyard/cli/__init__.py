"""The command line: one module per command, each read only when it is called."""
