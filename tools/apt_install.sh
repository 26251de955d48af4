#!/bin/sh
# Installs Debian's packages, as root: sh tools/apt_install.sh PACKAGE...
# Another make of ours, or the machine's own updates, may be at it at the same moment. The lists and
# archives are of this run alone, so that nobody's update takes them away and none has to wait for
# another; for the lock of the packages themselves apt waits, up to five minutes.
set -eu
# No service is to be started: tests and jobs run those of their own.
export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive LC_ALL=C

own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
trap 'exit 1' HUP INT TERM
# apt downloads as a user of its own.
chmod 755 "$own"
mkdir -p "$own/lists/partial" "$own/archives/partial"
set -- -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
apt() { apt-get -o Dir::State::lists="$own/lists" -o Dir::Cache="$own" "$@"; }

if ! said=$(apt update -qq 2>&1 && apt install "$@" 2>&1); then
    echo "$said" >&2
    exit 1
fi
