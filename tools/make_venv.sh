#!/bin/sh
# Makes the virtualenv that all make targets work in: sh tools/make_venv.sh DIR
# Finds a Python of 3.11 or later; as root on Debian it installs what venv needs.
set -eu
venv=$1

find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
}

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

python=$(find_python)
if [ -z "$python" ] && can_install; then
    echo "setup: installing Debian's python3" >&2
    apt-get update -qq && apt-get install -qq -y python3 python3-venv >/dev/null
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
        apt-get update -qq && apt-get install -qq -y python3-venv >/dev/null
    else
        echo "setup: this Python has no venv module (Debian: apt-get install python3-venv)." >&2
        exit 1
    fi
fi

echo "setup: making $venv with $("$python" --version)" >&2
"$python" -m venv "$venv"
# Dependency groups need pip 25.1 or later.
"$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
"$venv/bin/pip" install --quiet --disable-pip-version-check --editable . --group dev
echo "setup: ready" >&2
