"""The engine's side of a node, as a kubelet is: pod workers, statuses, the Node object."""
