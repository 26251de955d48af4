"""Jobyard: distributed training and batch jobs from one YAML file."""

__version__ = "0.1.0"
