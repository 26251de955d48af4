#!/bin/sh
# Installs Debian's packages, as root: sh tools/apt_install.sh PACKAGE...
# Another make of ours, or the machine's own updates, may be at it at the same moment: waits for
# them, up to five minutes each time.
set -eu
# No service is to be started: tests and jobs run those of their own.
export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive LC_ALL=C

# apt waits for the lock of the packages if it is told to, but never for that of the lists.
tries=60
until said=$(apt-get update -qq 2>&1); do
    tries=$((tries - 1))
    case $said in
    *"Could not get lock"*) [ "$tries" -gt 0 ] && sleep 5 && continue ;;
    esac
    echo "$said" >&2
    exit 1
done
apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
