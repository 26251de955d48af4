"""The scheduler's shell: watches, binds, evicts and writes statuses; `schedule` decides."""
