#!/bin/sh
# Waits until it has logged in to every host of the job, then becomes the program:
#   sh launcher.sh mpirun ...
# A port that answers is not enough: a worker counts once a command ran on it.
set -eu
. "$(dirname "$0")/prepare.sh"

limit_seconds=${JOBYARD_LOGIN_SECONDS:-600}
parallel=${JOBYARD_LOGINS_AT_ONCE:-32}
deadline=$(($(date +%s) + limit_seconds))
waiting=$ssh_dir/waiting
mkdir -p "$waiting"
command -v ssh >/dev/null 2>&1 || fail "there is no ssh in this image: install openssh-client"

# Said before anybody waits for logins, and with the code that a shell has for it.
missing() {
    echo "jobyard: $*" >&2
    exit 127
}
if ! command -v "$1" >/dev/null 2>&1; then
    name=${1##*/}
    found=$(command -v "$name") || found=
    if [ -z "${JOBYARD_PLACED_BY:-}" ] || [ "${2-}" != --prefix ]; then
        missing "exec: $1: not found: install it in the image, or, without one, where Jobyard was" \
            "started; jobyard doctor tells how"
    elif [ -z "${JOBYARD_WITHOUT_IMAGE:-}" ]; then
        missing "exec: $1: not found: $JOBYARD_PLACED_BY says $3, and the image has ${found:-none on PATH}" \
            "${found:+instead; set the field to the folder that has bin/$name, or leave it out}"
    elif [ -z "$found" ]; then
        missing "exec: $1: not found, and no $name on PATH: $JOBYARD_PLACED_BY says $3;" \
            "install it on this machine; jobyard doctor tells how"
    fi
    # The machine stands in for the image, and has it elsewhere.
    echo "jobyard: $JOBYARD_PLACED_BY says $3, and this machine has no $1: running $found" >&2
    shift 3
    set -- "$name" "$@"
fi

# Leaves a file with ssh's last words for a host that never answered.
log_in() {
    pause=1
    until ssh -F "$ssh_dir/config" -o ConnectTimeout=$((pause * 8)) "$1" true \
        </dev/null 2>"$waiting/$1"; do
        left=$((deadline - $(date +%s)))
        [ "$left" -gt 0 ] || return 0
        # Between two tries only: what ends the wait is a login, or the deadline.
        sleep "$pause"
        # Patience grows: with a tenth of a core, many logins at once take long.
        [ "$pause" -ge 8 ] || [ $((pause * 16)) -gt "$left" ] || pause=$((pause * 2))
        # Once, so that nobody has to wait for the deadline to learn what is wrong.
        [ "$pause" -lt 8 ] || [ -n "${told:-}" ] || {
            told=yes
            echo "jobyard: still no login on $1: $(tail -n 1 "$waiting/$1")" >&2
        }
    done
    rm -f "$waiting/$1"
}

started=0
while read -r host _; do
    log_in "$host" &
    started=$((started + 1))
    [ $((started % parallel)) -ne 0 ] || wait
done <"$files/hostfile"
wait

silent=$(ls "$waiting")
if [ -n "$silent" ]; then
    echo "jobyard: no login within $limit_seconds s on:" >&2
    for host in $silent; do
        echo "  $host: $(tail -n 1 "$waiting/$host")" >&2
    done
    exit 1
fi
rmdir "$waiting"

# For a launcher that exports all of its environment to the workers, on a command line that it
# prints when something fails: only what it needs itself, and the variables that the job's author
# has written down. Without HOME it finds ssh's configuration in the home that /etc/passwd names.
spare_environment() {
    kept=" PATH LANG LC_ALL LD_LIBRARY_PATH LD_PRELOAD NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP $1 "
    for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' | sort -u); do
        case $kept in
            *" $name "*) ;;
            *) unset "$name" ;;
        esac
    done
    eval "home=~$(id -un)"
    [ "$home/.ssh" = "$ssh_dir" ] || export HOME="$ssh_dir/home"
}
[ -z "${JOBYARD_KEPT+set}" ] || spare_environment "$JOBYARD_KEPT"
exec "$@"
