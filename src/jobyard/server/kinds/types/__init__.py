"""The types of Kubernetes' own kinds: decoding, quantities, times, zero values."""
