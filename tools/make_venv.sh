#!/bin/sh
# Makes the virtualenv that all make targets work in: sh tools/make_venv.sh DIR [dev]
# With `dev` also what development and the tests need. All of it is locked, in tools/locks/.
# Finds a Python of 3.11 or later; as root on Debian it installs what venv needs.
set -eu
venv=$1
what=${2:-}
tools=$(dirname "$0")

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

if [ "$what" = dev ]; then
    echo "setup: adding what development needs" >&2
    "$venv/bin/python" "$tools/locked_install.py" development
    echo "setup: ready" >&2
    exit
fi

python=$(find_python)
if [ -z "$python" ] && can_install; then
    echo "setup: installing Debian's python3" >&2
    sh "$tools/apt_install.sh" python3 python3-venv
    python=$(find_python)
fi
if [ -z "$python" ]; then
    echo "setup: Jobyard needs Python 3.11 or later, and none was found." >&2
    echo "       Install it (Debian: apt-get install python3 python3-venv), or name it:" >&2
    echo "       make PYTHON=/path/to/python3.11 ..." >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if can_install; then
        echo "setup: installing Debian's python3-venv" >&2
        sh "$tools/apt_install.sh" python3-venv
    else
        echo "setup: this Python has no venv module (Debian: apt-get install python3-venv)." >&2
        exit 1
    fi
fi

echo "setup: making $venv with $("$python" --version)" >&2
"$python" -m venv "$venv"
# The installer itself comes by pip, which every Python has; it brings the rest, many times faster.
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    --only-binary=:all: --require-hashes --requirement "$tools/locks/uv.txt"
"$venv/bin/python" "$tools/locked_install.py" package build
echo "setup: ready" >&2
