"""The pages, CRD files and picture that `tools/make_docs.py` writes.

Each module turns what the code itself says (types, rules, commands) into text; none of
them writes a file. Everything is deterministic, so that a test can compare.
"""
