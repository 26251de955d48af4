"""The objects that a job is made of, from its description: pods, services, keys, TensorBoard."""
