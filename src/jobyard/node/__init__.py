"""The node agent of the embedded engine: runs pods as sandboxed process trees of this machine.

Three kinds of processes. The *agent* lives in the engine: it turns pods into orders and states
into pod statuses. The *hub* holds the private network and forks supervisors. A *supervisor*
runs one pod to its end and needs neither of the others for it: the engine may die and come back.
What they say to one another is in `order` and `state`, as JSON.
"""
