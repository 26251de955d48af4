"""A TensorBoard beside a training job."""

from __future__ import annotations

from typing import Annotated

from jobyard.api.value import PATH_LENGTH_MAX, Resources, Value
from jobyard.schema.derive import described

FILESETS_MAX = 32
Fileset = Annotated[
    str,
    described(
        pattern="^t9k://pvc/[a-z0-9]([-a-z0-9.]*[a-z0-9])?(/.*)?$", max_length=PATH_LENGTH_MAX
    ),
]


class TensorboardSpec(Value):
    """Serves a training job's logs for as long as the job object exists."""

    image: Annotated[str, described("The image that TensorBoard runs from.", min_length=1)]
    training_log_filesets: Annotated[
        tuple[Fileset, ...],
        described(
            "Where the logs are, each t9k://pvc/<claim>/<path>.",
            min_length=1,
            max_length=FILESETS_MAX,
        ),
    ]
    resources: Annotated[Resources | None, described("Resources of the TensorBoard container.")] = (
        None
    )


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
