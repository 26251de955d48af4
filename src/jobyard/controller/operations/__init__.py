"""The controller as a process to operate: leader election, health, metrics, logs."""
