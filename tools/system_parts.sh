#!/bin/sh
# The programs of the system that tests need: sh tools/system_parts.sh
# Installs what is missing as root on Debian; elsewhere it says what to install.
set -eu

missing=""
for program in sshd ssh ssh-keygen slirp4netns curl setpriv unshare; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
find /usr/lib /usr/lib64 -name 'libnss_wrapper.so*' 2>/dev/null | grep -q . || missing="$missing libnss_wrapper"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing Debian's packages for$missing" >&2
    sh "$(dirname "$0")/apt_install.sh" \
        openssh-server openssh-client libnss-wrapper slirp4netns curl util-linux
else
    echo "setup: not there:$missing; tests that need them will be skipped." >&2
    echo "       Debian: apt-get install openssh-server openssh-client libnss-wrapper slirp4netns curl" >&2
fi
