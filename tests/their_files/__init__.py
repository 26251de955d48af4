"""Files as users of other platforms have them."""
