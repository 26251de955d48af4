"""The API server of the embedded engine: Kubernetes' wire protocol on one SQLite file.

`serving` is the door (HTTP, TLS, the token); behind it everything is a function from a
`Call` to a `Reply` on the objects in the `store`, with no asyncio and no clock of its own.
Where it differs from a real API server it is wrong: one conformance suite runs against both.
"""
