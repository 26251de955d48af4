"""What a cluster needs so that Jobyard runs there, as values: accounts, permissions, workload.

`jobyard install` prints it. Nothing here speaks to a cluster or reads a file, and nothing
knows how the controller works: only how it is started and what it may do.
"""
