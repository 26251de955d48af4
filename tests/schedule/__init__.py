"""Who is placed, who waits, who goes."""
