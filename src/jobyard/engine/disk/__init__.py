"""What engines keep on the disk: how much, what may go, and its removal."""
