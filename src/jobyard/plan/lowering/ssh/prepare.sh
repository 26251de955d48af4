# Sourced by worker.sh and launcher.sh: lays out keys and configuration for whoever runs us.
#
# The Secret is mounted readable for all, since a pod may run as any user; ssh insists on
# files that only their owner can read. So they are copied into a folder in memory that is
# this container's own, and appears where the job says (JOBYARD_SSH_DIR).

files=${JOBYARD_FILES:-/run/jobyard/files}
keys=${JOBYARD_KEYS:-/run/jobyard/keys}
ssh_dir=${JOBYARD_SSH_DIR:-/root/.ssh}
ssh_port=${JOBYARD_SSH_PORT:-2222}

fail() {
    echo "jobyard: $*" >&2
    exit 1
}

# A uid without a name can neither run sshd nor log in: give it one, if anything lets us.
name_user() {
    uid=$(id -u)
    if user=$(id -un 2>/dev/null); then
        case $(grep "^$user:" /etc/passwd | cut -d : -f 7) in
            */nologin | */false) lacking="user $user has no login shell" ;;
            *) return ;;
        esac
    else
        user=jobyard
        lacking="uid $uid has no name in /etc/passwd"
        if [ -w /etc/passwd ]; then
            echo "$user:x:$uid:$(id -g)::$ssh_dir:/bin/sh" >>/etc/passwd
            return
        fi
    fi
    wrapper=$(find /usr/lib /usr/lib64 /usr/local/lib -name 'libnss_wrapper.so*' 2>/dev/null | head -n 1)
    [ -n "$wrapper" ] || fail "$lacking, and ssh needs one: put it into /etc/passwd of the image," \
        "make that file writable, install libnss-wrapper, or run as another user"
    {
        grep -v "^$user:" /etc/passwd
        echo "$user:x:$uid:$(id -g)::$ssh_dir:/bin/sh"
    } >"$ssh_dir/passwd"
    export LD_PRELOAD="$wrapper" NSS_WRAPPER_PASSWD="$ssh_dir/passwd" NSS_WRAPPER_GROUP=/etc/group
}

lay_out() {
    mkdir -p "$ssh_dir" 2>/dev/null || fail "can't make $ssh_dir as uid $(id -u)"
    [ -w "$ssh_dir" ] || fail "can't write to $ssh_dir as uid $(id -u)"
    name_user
    # Not cp, which would carry over the mode of a mounted Secret.
    cat "$keys/identity" >"$ssh_dir/identity"
    # At this level bash doesn't read ~/.bashrc, as it does in a login over ssh; that may take its
    # time or print something, and whatever it exports is replaced by the container's own.
    echo "environment=\"SHLVL=1\" $(cat "$keys/identity.pub")" >"$ssh_dir/authorized_keys"
    cat "$keys/host_key" >"$ssh_dir/host_key"
    # One host key for all replicas of a job, made for it; so host checking can stay on.
    echo "* $(cat "$keys/host_key.pub")" >"$ssh_dir/known_hosts"
    cat >"$ssh_dir/config" <<END
Host *
    Port $ssh_port
    User $user
    IdentityFile $ssh_dir/identity
    IdentitiesOnly yes
    UserKnownHostsFile $ssh_dir/known_hosts
    StrictHostKeyChecking yes
    BatchMode yes
    LogLevel ERROR
END
    # For programs that look for it in a home.
    mkdir -p "$ssh_dir/home"
    ln -sfn "$ssh_dir" "$ssh_dir/home/.ssh"
}

umask 077
[ -n "${JOBYARD_PREPARED:-}" ] || lay_out
