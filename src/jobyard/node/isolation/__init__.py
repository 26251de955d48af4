"""How a pod is kept apart: cages that start a container's processes, in namespaces or without.

`sandbox` and `host` are the two cages; everything else here is a part of one of them. It knows
orders and processes, and nothing of a pod's life, of the API or of asyncio.
"""
