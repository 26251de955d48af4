"""What a person says on the command line, as values: files, kinds, names, options, where to."""
