#!/bin/sh -eu
# The image does what examples that name python:3.11-slim ask of it.
python --version | grep -q '^Python 3\.11\.'
python3 -c 'import ssl, sqlite3, ctypes, multiprocessing, json, http.server, zoneinfo'
setpriv --reuid 65532 --regid 65532 --clear-groups python -c 'import os; assert os.getuid() == 65532'
bash -c 'sleep 0; seq 3 | sort -n | tail -1 | grep -q 3'
