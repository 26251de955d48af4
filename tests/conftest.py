"""Fixtures for all tests. Those around a real Kubernetes live in `rig`."""

pytest_plugins = ["rig.plugin"]
