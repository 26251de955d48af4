#!/bin/sh
# Runs a script in a tree, in namespaces that end with it (see trees.py):
#   inside.sh AT LOWER UPPER WORK GIVEN SCRIPT
# AT is an empty folder; without UPPER the tree can't be written to. The script finds the folder
# GIVEN at /run/given.
set -eu
at=$1 lower=$2 upper=$3 work=$4 given=$5 script=$6

if [ -n "$upper" ]; then
    # A renamed folder is to be written out, not marked in a way that only overlayfs knows.
    mount -t overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work,redirect_dir=off" images "$at"
elif [ "${lower#*:}" != "$lower" ]; then
    mount -t overlay -o "lowerdir=$lower" images "$at"
else
    mount --bind "$lower" "$at"
    mount -o remount,bind,ro "$at"
fi
mount -t proc proc "$at/proc"
mount --rbind /dev "$at/dev"
for folder in run tmp; do mount -t tmpfs -o mode=1777 tmpfs "$at/$folder"; done
mkdir "$at/run/given"
mount --bind "$given" "$at/run/given"
cp "$script" "$at/run/script"

if [ -n "$upper" ]; then
    # The way to packages is this machine's; mounted, so that it stays out of the layer.
    for path in /etc/resolv.conf /etc/hosts /etc/apt /etc/ssl /usr/share/keyrings; do
        if [ -e "$path" ] && [ -e "$at$path" ]; then mount --bind "$path" "$at$path"; fi
    done
else
    # As in a container: its own names are all that it can look up.
    ip link set lo up
    echo "127.0.0.1 localhost $(hostname)" >"$at/run/hosts"
    mount --bind "$at/run/hosts" "$at/etc/hosts"
fi
# No service is to be started at its installation.
exec chroot "$at" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive sh -eu /run/script
