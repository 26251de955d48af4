"""Manifest files as users write them: YAML or JSON text in, documents with line numbers out."""
