#!/bin/sh
# The programs of the system that images are made with: sh tools/images/system_packages.sh
# Installs what is missing as root on Debian; elsewhere it says what to install.
set -eu

packages="mmdebstrap gcc libc6-dev util-linux iproute2"
missing=""
for program in mmdebstrap gcc unshare setpriv ip; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "images: installing Debian's packages for$missing" >&2
    # shellcheck disable=SC2086
    sh "$(dirname "$0")/../apt_install.sh" $packages
else
    echo "images: not there:$missing" >&2
    echo "        Debian: apt-get install $packages" >&2
    exit 1
fi
