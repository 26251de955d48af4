"""The controller on a real API server, with a fake kubelet."""
