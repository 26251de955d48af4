#!/bin/sh -eu
PYTHONPATH=/run/given/pip python -m pip --python /opt/jobyard install --quiet --no-cache-dir \
    --root-user-action ignore --no-index --no-deps /run/given/wheels/jobyard-*.whl
PYTHONPATH=/run/given/pip python -m pip --python /opt/jobyard check
