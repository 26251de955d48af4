#!/bin/sh
# The first worker of a DeepSpeedJob: sshd as on the others, and beside it the program, once
# every worker can be reached:
#   sh first.sh deepspeed --hostfile /t9k/hostfile ...
# The host file is written here and not mounted: a mounted file would not be the one that
# this start of the job needs.
set -eu
here=$(dirname "$0")
. "$here/prepare.sh"
# The two scripts below find the keys in place.
export JOBYARD_PREPARED=1

hostfile=${JOBYARD_HOSTFILE:-/t9k/hostfile}
mkdir -p "$(dirname "$hostfile")" 2>/dev/null || true
cat "$files/hostfile" 2>/dev/null >"$hostfile" || fail "can't write $hostfile as uid $(id -u):" \
    "run as root, or make its folder writable in the image"

# NAME=VALUE lines, as DeepSpeed reads them; it has no way to write a value of several lines.
hand_on_environment() {
    for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | sort -u); do
        case $name in
            HOME | HOSTNAME | PWD | OLDPWD | SHLVL | TERM | _ | JOBYARD_* | DS_ENV_FILE | LD_PRELOAD) ;;
            *)
                eval "value=\${$name-}"
                [ "$(printf '%s' "$value" | wc -l)" -gt 0 ] || printf '%s=%s\n' "$name" "$value"
                ;;
        esac
    done
}
[ -z "${DS_ENV_FILE:-}" ] || hand_on_environment >"$DS_ENV_FILE"

sh "$here/worker.sh" &
# The program takes our place, so that it gets the signals; sshd ends with the container.
exec sh "$here/launcher.sh" "$@"
