"""Files as users write them, and all that is said about them offline."""
