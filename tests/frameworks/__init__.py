"""Every kind with the framework it is named after, for real: `make test-frameworks`."""
