"""Container images out of Debian's packages and this tree, without a registry and without docker.

`tools/get_images.py` says which images there are; the modules here make trees, layers and archives.
"""
