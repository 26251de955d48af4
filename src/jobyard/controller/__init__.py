"""The controller: watches jobs and what belongs to them, decides, and acts.

What should be done is decided by `jobyard.plan`, which knows no clock and no network. Here is
the shell around it: caches fed by watches, a queue, the writes, and what it takes to operate
it (one leader at a time, metrics, health endpoints, logs). It only ever speaks the Kubernetes
API, so it runs unchanged against a cluster and against the embedded engine.
"""
