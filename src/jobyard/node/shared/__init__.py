"""What engine, hub and supervisors share: orders, states, folders, locks, protocol."""
