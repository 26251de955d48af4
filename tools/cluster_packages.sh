#!/bin/sh
# The programs of the system that a node of a cluster needs: sh tools/cluster_packages.sh
# Installs what is missing as root on Debian; elsewhere it says what to install.
set -eu

packages="containerd runc containernetworking-plugins iptables iproute2 mount util-linux"
missing=""
for program in containerd containerd-shim-runc-v2 ctr runc iptables ip mount unshare setpriv; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
find /usr/lib/cni /opt/cni/bin /usr/libexec/cni -name ptp 2>/dev/null | grep -q . || missing="$missing ptp"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "cluster: installing Debian's packages for$missing" >&2
    # shellcheck disable=SC2086
    sh "$(dirname "$0")/apt_install.sh" $packages
else
    echo "cluster: not there:$missing" >&2
    echo "         Debian: apt-get install $packages" >&2
    exit 1
fi
