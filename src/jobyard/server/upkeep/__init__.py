"""What the server does unasked: owner garbage collection, the end of namespaces and CRDs."""
