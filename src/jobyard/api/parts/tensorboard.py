"""A TensorBoard beside a training job."""

from __future__ import annotations

from typing import Annotated

from jobyard.api.parts.scheduling import Scheduler
from jobyard.api.parts.value import PATH_LENGTH_MAX, Resources, Value
from jobyard.schema.derive import described

FILESETS_MAX = 32
CLAIM = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
CLAIM_LENGTH_MAX = 253
Fileset = Annotated[
    str,
    described(pattern=f"^t9k://(pvc|minio)/{CLAIM}(/.*)?$", max_length=PATH_LENGTH_MAX),
]
LogPath = Annotated[str, described(max_length=PATH_LENGTH_MAX)]
LogPaths = Annotated[tuple[LogPath, ...], described(max_length=FILESETS_MAX)]


class ClaimLogs(Value):
    """Logs in a persistentVolumeClaim."""

    name: Annotated[
        str,
        described("The claim's name.", pattern=f"^{CLAIM}$", max_length=CLAIM_LENGTH_MAX),
    ]
    sub_path: Annotated[
        LogPaths, described("Folders in the claim; absent or empty: all of it.")
    ] = ()


class LogSecret(Value):
    """A secret by its name."""

    name: Annotated[str | None, described("The secret's name.")] = None


class ObjectStoreLogs(Value):
    """Logs in an object store. Not served: no effect."""

    secret_ref: Annotated[
        LogSecret | None, described("The secret with address and keys of the store; no effect.")
    ] = None
    uri: Annotated[LogPaths, described("Where the logs are in the store; no effect.")] = ()


class HttpLogs(Value):
    """Logs behind web addresses. Not served: no effect."""

    url: Annotated[LogPaths, described("The addresses of the logs; no effect.")] = ()


class LogDir(Value):
    """Where the logs are."""

    pvc: Annotated[
        tuple[ClaimLogs, ...], described("Claims with logs.", max_length=FILESETS_MAX)
    ] = ()
    s3: Annotated[
        ObjectStoreLogs | None, described("Logs in an object store; not served, no effect.")
    ] = None
    http: Annotated[
        HttpLogs | None, described("Logs behind web addresses; not served, no effect.")
    ] = None


class TensorboardSpec(Value):
    """Serves a training job's logs for as long as the job object exists."""

    image: Annotated[
        str | None,
        described("The image that TensorBoard runs from; absent or empty: one of TensorFlow's."),
    ] = None
    training_log_filesets: Annotated[
        tuple[Fileset, ...],
        described(
            "Where the logs are, each t9k://pvc/<claim>/<path>, beside those of logDir;"
            " t9k://minio/… is not served.",
            max_length=FILESETS_MAX,
        ),
    ] = ()
    log_dir: Annotated[LogDir | None, described("Where the logs are.")] = None
    suspend: Annotated[
        bool,
        described("No pod runs while it is true; may be switched at any time."),
    ] = False
    run_mode: Annotated[
        Annotated[str, described(pattern="^(running|paused)?$", max_length=7)] | None,
        described("Old spelling: paused means suspend: true."),
    ] = None
    scheduler: Annotated[
        Scheduler | None,
        described(
            "The queue that its pod waits in, where a priority has no effect; absent: the cluster's"
            " default scheduler."
        ),
    ] = None
    resources: Annotated[Resources | None, described("Resources of the TensorBoard container.")] = (
        None
    )

    @property
    def is_suspended(self) -> bool:
        return self.suspend or self.run_mode == "paused"


class Dependent(Value):
    """The object that serves the TensorBoard."""

    api_version: Annotated[str, described("The object's apiVersion.")] = ""
    kind: Annotated[str, described("The object's kind.")] = ""
    name: Annotated[str, described("The object's name.")] = ""


class TensorboardStatus(Value):
    """What is known of the job's TensorBoard."""

    ready: Annotated[bool | None, described("Whether it answers.")] = None
    reason: Annotated[str, described("One word for why it is as it is.")] = ""
    note: Annotated[str, described("The same in a sentence.")] = ""
    type: Annotated[str, described("Normal or Warning, as in an event.")] = ""
    action: Annotated[str, described("What the controller did last.")] = ""
    dependent: Annotated[Dependent | None, described("The object that serves it.")] = None
