#!/bin/sh
# The programs of the system that tests need: sh tools/system_parts.sh
# Installs what is missing as root on Debian; elsewhere it says what to install.
set -eu

missing=""
for program in sshd ssh ssh-keygen; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
find /usr/lib /usr/lib64 -name 'libnss_wrapper.so*' 2>/dev/null | grep -q . || missing="$missing libnss_wrapper"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing Debian's openssh-server and libnss-wrapper (for$missing)" >&2
    # No service is to be started: tests run an sshd of their own, on loopback.
    export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq -y --no-install-recommends openssh-server openssh-client libnss-wrapper >/dev/null
else
    echo "setup: not there:$missing; the tests of the ssh scripts will be skipped." >&2
    echo "       Debian: apt-get install openssh-server openssh-client libnss-wrapper" >&2
fi
