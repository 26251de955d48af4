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

# Leaves a file with ssh's last words for a host that never answered.
log_in() {
    pause=1
    until ssh -F "$ssh_dir/config" -o ConnectTimeout=5 "$1" true </dev/null 2>"$waiting/$1"; do
        [ "$(date +%s)" -lt "$deadline" ] || return 0
        # Between two tries only: what ends the wait is a login, or the deadline.
        sleep "$pause"
        [ "$pause" -ge 8 ] || pause=$((pause * 2))
    done
    rm -f "$waiting/$1"
}

started=0
while read -r host; do
    log_in "$host" &
    started=$((started + 1))
    [ $((started % parallel)) -ne 0 ] || wait
done <"$files/hosts"
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
exec "$@"
