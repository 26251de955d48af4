#!/bin/sh
# The first worker of a DeepSpeedJob: sshd as on the others, and beside it the program, once
# every worker can be reached:
#   sh first.sh deepspeed --hostfile /t9k/hostfile ...
set -eu
here=$(dirname "$0")
. "$here/prepare.sh"
# The two scripts below find the keys in place.
export JOBYARD_PREPARED=1

# NAME=VALUE lines, as DeepSpeed reads them. It prints them, and puts them on a command line where
# quotes, $ and % would mean something: so only the variables that the job's author has written
# down, and of those only plain values. Nothing is lost: each worker gives the processes that come
# in over ssh the environment of its own container.
hand_on_environment() {
    for name in ${JOBYARD_HANDED_ON:-}; do
        eval "value=\${$name-}"
        case $value in
            *[!A-Za-z0-9_@+=:,./-]*) ;;
            *) printf '%s=%s\n' "$name" "$value" ;;
        esac
    done
}
[ -z "${DS_ENV_FILE:-}" ] || hand_on_environment >"$DS_ENV_FILE"

# DeepSpeed also calls a plain ssh, which would read the configuration in the home that
# /etc/passwd names.
if ssh=$(command -v ssh); then
    mkdir -p "$ssh_dir/bin"
    printf '#!/bin/sh\nexec %s -F %s/config "$@"\n' "$ssh" "$ssh_dir" >"$ssh_dir/bin/ssh"
    chmod 700 "$ssh_dir/bin/ssh"
    export PATH="$ssh_dir/bin:$PATH"
fi

# Newer releases of DeepSpeed have no elastic training of their own and refuse its options
# (deepspeed --hostfile F --master_addr H --elastic_training --min_elastic_nodes N
# --max_elastic_nodes N ...). They need none: a new number of workers starts us anew.
if [ "${6-}" = --elastic_training ] && ! "$1" --help 2>&1 | grep -q -e --elastic_training; then
    launch="$1" host_option="$2" hosts="$3" master_option="$4" master="$5"
    shift 10
    set -- "$launch" "$host_option" "$hosts" "$master_option" "$master" "$@"
fi

sh "$here/worker.sh" &
# The program takes our place, so that it gets the signals; sshd ends with the container.
exec sh "$here/launcher.sh" "$@"
