"""What a person sees: lines, tables, colours, the live screen."""
