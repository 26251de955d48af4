"""Pods: defaults, what is wrong with one, and what may change in one."""
