"""From a job's own spec to the common description: kinds, run modes, variables, names, gangs."""
