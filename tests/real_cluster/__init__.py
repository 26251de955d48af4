"""Tests with a whole Kubernetes on this machine: real nodes, real pods. `make kubelet-test`."""
