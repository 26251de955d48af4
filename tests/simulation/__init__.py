"""A simulation of the controller: its own passes, caches and decisions, unchanged, against a model
API server with faults, in virtual time.

Everything random comes from one seed, so a run can be played again. `driver` takes the steps,
`invariants` says after each what must hold, `settling` what must hold in the end, and
`shrinking` looks for a shorter run that fails in the same way.
"""
