#!/bin/sh -eu
# As the Dockerfile has it; pip is the one of the machine that makes the image, and stays there.
python -m venv --without-pip /opt/jobyard
PYTHONPATH=/run/given/pip python -m pip --python /opt/jobyard install --quiet --no-cache-dir \
    --root-user-action ignore --no-index --find-links /run/given/wheels \
    --require-hashes --requirement /run/given/package.txt
