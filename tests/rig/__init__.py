"""What all tests use: a real Kubernetes (`kube`), engines, persons who type commands, waiting.

`plugin` has the fixtures, `selection` says which tests a run takes, `places` knows where things
are, `waiting` is how a test waits, `person` how it runs commands. Nothing in here is a test; those
of the rig are in `itself`.
"""
