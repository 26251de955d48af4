#!/bin/sh
# The programs of the system that something needs: sh tools/system_packages.sh FOR...
# FOR is tests, frameworks, cluster or images. As root on Debian it installs what is missing, all at
# once; elsewhere it says what to install, and fails unless it is for tests alone: those do without.
set -eu

missing="" packages="" can_do_without=yes

need() { # PACKAGES PROGRAM...: the programs, and the packages that have them
    from=$1 lacking=""
    shift
    for program; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || lacking="$lacking $program"
    done
    [ -z "$lacking" ] || { missing="$missing$lacking" packages="$packages $from"; }
}

need_file() { # PACKAGE NAME FOLDER...: a file somewhere in the folders
    from=$1 name=$2
    shift 2
    find "$@" -name "$name" 2>/dev/null | grep -q . || { missing="$missing ${name%%.*}" packages="$packages $from"; }
}

for purpose; do
    case $purpose in
    tests)
        need "openssh-server openssh-client" sshd ssh ssh-keygen
        need slirp4netns slirp4netns
        need curl curl
        need util-linux setpriv unshare
        need openjdk-17-jdk-headless java javac
        need maven mvn
        need_file libnss-wrapper 'libnss_wrapper.so*' /usr/lib /usr/lib64
        ;;
    frameworks)
        need "openmpi-bin libopenmpi-dev" mpirun mpicc
        need "gcc g++ libc6-dev make" gcc g++ make
        need pdsh pdsh
        need "openssh-server openssh-client" sshd ssh
        need openjdk-17-jre-headless java
        need maven mvn
        # Without it nobody can log in as a user that the machine has no name for.
        need_file libnss-wrapper 'libnss_wrapper.so*' /usr/lib /usr/lib64
        ;;
    cluster)
        need "containerd runc" containerd containerd-shim-runc-v2 ctr runc
        need "iptables iproute2" iptables ip
        need "mount util-linux" mount unshare setpriv
        need_file containernetworking-plugins ptp /usr/lib/cni /opt/cni/bin /usr/libexec/cni
        ;;
    images)
        need mmdebstrap mmdebstrap
        need "gcc libc6-dev" gcc
        need "util-linux iproute2" unshare setpriv ip
        ;;
    *)
        echo "system: nothing is known of $purpose" >&2
        exit 2
        ;;
    esac
    [ "$purpose" = tests ] || can_do_without=""
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "system: installing Debian's packages for$missing" >&2
    # shellcheck disable=SC2086
    exec sh "$(dirname "$0")/apt_install.sh" $packages
fi
echo "system: not there, for $*:$missing" >&2
echo "        As root on Debian: apt-get install$packages" >&2
[ -n "$can_do_without" ] || exit 1
echo "        Tests that need them will be skipped." >&2
