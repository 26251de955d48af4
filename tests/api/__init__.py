"""The kinds: what they are made of, what is refused, what may change."""
