#!/bin/sh
# The programs of the system that frameworks need: sh tools/frameworks/system_packages.sh
# Installs what is missing as root on Debian; elsewhere it says what to install.
set -eu

packages="openmpi-bin libopenmpi-dev gcc g++ libc6-dev make pdsh openssh-server openssh-client libnss-wrapper openjdk-17-jre-headless maven"
missing=""
for program in mpirun mpicc gcc g++ make pdsh sshd ssh java mvn; do
    PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
done
# Without it nobody can log in as a user that the machine has no name for.
find /usr/lib /usr/lib64 -name 'libnss_wrapper.so*' 2>/dev/null | grep -q . || missing="$missing libnss_wrapper"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "frameworks: installing Debian's packages for$missing" >&2
    began=$(date +%s)
    # shellcheck disable=SC2086
    sh "$(dirname "$0")/../apt_install.sh" $packages
    echo "frameworks: that took $(($(date +%s) - began)) s" >&2
else
    echo "frameworks: not there:$missing" >&2
    echo "            Debian: apt-get install $packages" >&2
    exit 1
fi
