#!/bin/sh
# Runs sshd in the foreground with the job's own keys, as whoever runs this:
#   sh worker.sh [SSHD [OPTION...]]
# Processes that come in over ssh get this container's environment and working folder.
set -eu
. "$(dirname "$0")/prepare.sh"

shadow=${JOBYARD_SHADOW:-/etc/shadow}
# What a debug or resume command says comes first, then the job's own path. The files of a machine
# that stands in for an image (JOBYARD_WITHOUT_IMAGE) are where the machine has them.
wanted=${1:-${JOBYARD_SSHD:-/usr/sbin/sshd}}
[ $# = 0 ] || shift
sshd=
for path in "$wanted" "${JOBYARD_SSHD:-/usr/sbin/sshd}" \
    ${JOBYARD_WITHOUT_IMAGE:+sshd /usr/sbin/sshd /usr/local/sbin/sshd}; do
    # sshd insists on its whole path.
    sshd=$(command -v "$path") && [ -x "$sshd" ] && break
    sshd=
done
[ -n "$sshd" ] || fail "there is no sshd at $wanted:" \
    "install openssh-server in the image, or set the job's ssh.sshdPath"
case $wanted in
    "$sshd" | "${sshd##*/}") ;;
    *) echo "jobyard: there is no sshd at $wanted: running $sshd" >&2 ;;
esac

# sshd alone refuses an account that is locked, as root is in some images; PAM lets keys in.
pam=no
if grep -q "^$(id -un):!" "$shadow" 2>/dev/null; then
    [ -f /etc/pam.d/sshd ] || fail "user $(id -un) is locked in /etc/shadow, and sshd refuses it:" \
        "put * in place of its ! in the image"
    pam=yes
fi

# What `export -p` prints is quoted for the shell, whatever the values hold.
export -p >"$ssh_dir/environment"
cat >"$ssh_dir/enter" <<END
. '$ssh_dir/environment'
cd '$(pwd)' || exit 1
exec /bin/sh -c "\${SSH_ORIGINAL_COMMAND:-exec /bin/sh}"
END
cat >"$ssh_dir/sshd_config" <<END
Port $ssh_port
HostKey $ssh_dir/host_key
AuthorizedKeysFile $ssh_dir/authorized_keys
PidFile $ssh_dir/sshd.pid
ForceCommand /bin/sh '$ssh_dir/enter'
PasswordAuthentication no
KbdInteractiveAuthentication no
PubkeyAuthentication yes
PermitUserEnvironment yes
PermitRootLogin prohibit-password
# The folder is a volume, whose owner the cluster chooses.
StrictModes no
UsePAM $pam
UseDNS no
PrintMotd no
MaxStartups 1000
MaxSessions 1000
LogLevel ERROR
END
# Debian's sshd wants this folder for its privilege separation when it runs as root.
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
exec "$sshd" -D -e -f "$ssh_dir/sshd_config" "$@"
