"""The files that a container sees: layers, mounts, mount points, devices."""
