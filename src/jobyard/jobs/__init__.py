"""What one does with jobs, without a command line and without printing: submit, watch, logs."""
