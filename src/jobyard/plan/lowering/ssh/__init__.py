"""What the kinds that log in over ssh share: start scripts, keys, and where they are.

The scripts beside this module run in the user's own image, under a plain `sh`, as any
user. Keys come from the controller in a Secret; scripts and host names are in a
ConfigMap. Nothing here makes a key or opens a connection.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Any

from jobyard.plan.lowering.description import JSON, Identity, Role, Start
from jobyard.plan.lowering.ssh.sshd import sshd_in

PORT = 2222
FILES_PATH = "/run/jobyard/files"
KEYS_PATH = "/run/jobyard/keys"
KEY_FILES = ("identity", "identity.pub", "host_key", "host_key.pub")
_SCRIPTS = ("prepare.sh", "worker.sh", "launcher.sh")
_FIRST = "first.sh"
# Readable for all: the pod may run as any user, and copies what only it may read.
_READABLE = 0o444
# Names the field that says where the launching program is.
PLACED_BY = "JOBYARD_PLACED_BY"
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@cache
def scripts(*, with_first: bool = False) -> dict[str, str]:
    """The start scripts by name. Callers must not change it.

    `with_first` adds the one for a worker that also launches.
    """
    folder = files("jobyard.plan.lowering.ssh")
    names = (*_SCRIPTS, _FIRST) if with_first else _SCRIPTS
    return {name: folder.joinpath(name).read_text() for name in names}


def keys_name(identity: Identity) -> str:
    return f"{identity.name}-ssh"


def files_name(identity: Identity) -> str:
    return f"{identity.name}-launch"


def volumes(identity: Identity) -> tuple[dict[str, Any], ...]:
    return (
        {
            "name": "jobyard-keys",
            "secret": {"secretName": keys_name(identity), "defaultMode": _READABLE},
        },
        {
            "name": "jobyard-files",
            "configMap": {"name": files_name(identity), "defaultMode": _READABLE},
        },
        {"name": "jobyard-ssh", "emptyDir": {"medium": "Memory"}},
    )


def mounts(auth_path: str) -> tuple[dict[str, Any], ...]:
    return (
        {"name": "jobyard-keys", "mountPath": KEYS_PATH, "readOnly": True},
        {"name": "jobyard-files", "mountPath": FILES_PATH, "readOnly": True},
        {"name": "jobyard-ssh", "mountPath": auth_path},
    )


def file_mount(name: str, path: str) -> dict[str, Any]:
    """One of the job's files at a path of its own too; no user has to be able to write there.

    Such a file never changes in a container that runs. So it is only for what makes the pod anew.
    """
    return {"name": "jobyard-files", "mountPath": path, "subPath": name, "readOnly": True}


def worker_start(identity: Identity, sshd_path: str, auth_path: str) -> Start:
    """A replica that waits for logins: the program is sshd with the job's configuration."""
    return Start(
        env=(("JOBYARD_SSHD", sshd_path), ("JOBYARD_SSH_DIR", auth_path)),
        program=("sh", f"{FILES_PATH}/worker.sh"),
        volumes=volumes(identity),
        mounts=mounts(auth_path),
    )


# Whoever debugs wants to log in by hand, and that needs the keys in place. What keeps them from
# getting there is told in the log, and doesn't end what somebody wants to look into.
_PREPARED = f'(. {FILES_PATH}/prepare.sh); exec "$@"'
# The same, and others can log in here meanwhile.
_REACHABLE = f'sh {FILES_PATH}/worker.sh & exec "$@"'


def prepared(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command of who debugs, which finds keys and configuration of ssh in place."""
    return with_own_sshd(command) or ("sh", "-c", _PREPARED, "sh", *command)


def with_own_sshd(command: tuple[str, ...]) -> tuple[str, ...]:
    """A command that is no more than an sshd, as one that has the job's keys and port.

    By itself it would know neither, and the launcher would wait for it in vain. Ports and other
    options are taken over. Empty for other commands, and for an sshd that is given a
    configuration of its own: that is what its author wants to try.
    """
    sshd = sshd_in(command)
    if sshd is None or sshd.is_configured or not sshd.serves:
        return ()
    return ("sh", f"{FILES_PATH}/worker.sh", sshd.path, *sshd.options(beside=PORT))


PREPARED_SLEEP = prepared(("sleep", "inf"))
REACHABLE_SLEEP = ("sh", "-c", _REACHABLE, "sh", "sleep", "inf")


def launcher_start(
    identity: Identity,
    auth_path: str,
    launch: tuple[str, ...],
    program: tuple[str, ...],
    *,
    env: tuple[tuple[str, str], ...] = (),
    script: str = "launcher.sh",
) -> Start:
    """The replica that logs in everywhere and then becomes `launch`, which starts `program`.

    Where a field of the job says in which folder the launching program is, `env` names the field
    (`PLACED_BY`), for who has to be told that it isn't there.
    """
    return Start(
        env=(("JOBYARD_SSH_DIR", auth_path), *env),
        command=("sh", f"{FILES_PATH}/{script}", *launch),
        program=program,
        volumes=volumes(identity),
        mounts=mounts(auth_path),
    )


def printable_variable_names(role: Role) -> str:
    """The main container's variables that a launcher may print and write on command lines.

    Those whose values stand in the manifest or in a ConfigMap. Not what comes of a Secret, be it
    inside of another value; and not what differs from pod to pod, which is no launcher's to tell.
    """
    return " ".join(each["name"] for each in _variables(role) if _is_open(each))


def names_of(role: Role) -> list[str]:
    return [each["name"] for each in _variables(role)]


def _variables(role: Role) -> tuple[JSON, ...]:
    container = next(c for c in role.containers if c["name"] == role.main_container)
    return tuple(container.get("env", ()))


def _is_open(variable: JSON) -> bool:
    source = variable.get("valueFrom") or {"configMapKeyRef": {}}
    is_made_of_others = "$(" in (variable.get("value") or "")
    is_name = _SHELL_NAME.fullmatch(variable["name"]) is not None
    return is_name and "configMapKeyRef" in source and not is_made_of_others
