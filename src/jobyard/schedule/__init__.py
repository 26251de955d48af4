"""Where pods run: one machine's room, who gets it, and why somebody doesn't.

Pure, like `plan`: snapshots in, a placement out. The shell around it is in `run.placing`.
"""
