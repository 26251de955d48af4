"""What lines of logs look like that tell of a failure, and those that seem to: a table.

`log_tail` and `last_words` read a log's end by it. A row is a kind and patterns, tried in the order
of `_ROWS`; the first that matches decides. Whoever meets a launcher or a library whose last line
hides the error adds a pattern here, and the log to tests/last_words. No pattern repeats a
repetition, so that each takes a time linear in the length of the line.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


class Kind(IntEnum):
    """What a line is; the greater, the more it tells of why."""

    # Frames of a stack, rulers, hints, chatter: never shown if there is anything else.
    NOISE = 0
    # Whatever a program says.
    PLAIN = 1
    # Somebody says that a process failed, and not why.
    REPORT = 2
    # An error that follows from the failure of another process, or comes while ending.
    FOLLOWED = 3
    # Somebody says which process ended, and by which signal.
    BLAMED = 4
    # A line that calls itself an error.
    ERROR = 5
    # An exception, a panic, a check that failed.
    RAISED = 6


_NOISE: Final = (
    # Rulers.
    r"^[-=*_#+~^. ]{3,}$",
    # Frames: C++ of XGBoost, of PyTorch and of Open MPI, Java, Go, Python's faulthandler.
    r"^\[bt\] \(\d+\)|^frame #\d+:|^Stack trace:$",
    r"^Exception raised from .*\(most recent call first\)",
    r"^\[[\w.-]+:\d+\] (?:\[ ?\d+\] |\*\*\* (?:Process received|End of error)|Signal|Failing at)",
    r"^at [\w.$/@<>-]+\(|^\.\.\. \d+ (?:more|common frames omitted)$|^Driver stacktrace:$",
    r"^goroutine \d+ |^created by .* in goroutine|^\S+\.go:\d+ \+0x",
    r"^(?:Current t|T)hread 0x[0-9a-f]+ |^Extension modules: |^File \"[^\"]*\", line \d+ in ",
    r"^Traceback \(most recent call last\):|^During handling of the above|^The above exception was",
    r"^\[Previous line repeated \d+ more times?\]$",
    # Hints that follow an error, or warnings that come with none.
    r"^(?:traceback +: )?To enable traceback see|^(?:NOTE|Note|note|Hint|hint|HINT): |^wandb: ",
    r"^\S+:\d+: \w*Warning: |^warnings\.warn\(|^To enable the following instructions",
    r"^WARNING: All log messages before absl|^Node\.js v\d",
    # What libraries log while all is well. Google's logs begin with the level.
    r"^[IW]\d{4} \d\d:\d\d:|^[IW] (?:tensorflow|external|xla)/|^\[[IW]\d* [\d:. ]*\w+\.cpp:\d+\]",
    r"^[EWI]\d{4} \d\d:\d\d:[\d.]+ +\d+ \S*torch/distributed/elastic/",
    r"(?:Unable to register cu\w+ factory|computation placer already registered"
    r"|failed call to cuInit)",
    r"^\[(?:INFO|WARNING)\] \[\w+\.py:\d+:",
    # Of launchers: they say the same at every failure.
    r"(?:^|\.)ChildFailedError: ?$|^<NO_OTHER_FAILURES>$",
    r"^Primary job +terminated normally|^mpirun detected that one or more processes exited",
    r"^\d+ total processes failed to start$|^ORTE was unable to reliably start",
    r"^Command: '|^Exit code: +\d+$|^Std(?:out|err): already printed$|^=+ (?:Train|Stopp)ing ",
    r"^\S+: (?:failure|finish)$",
)
_REPORT: Final = (
    r"^(?:subprocess\.)?CalledProcessError: |exits with return code = \d",
    r"^Error: failed to run .* Encountered a bad command exit code!$",
    r"^make(?:\[\d+\])?: \*\*\* |^pdsh@\S+: |^srun: error: .* Exited with ",
    r"^MPI_ABORT was invoked on rank ",
    r"^(?:\S+: line \d+: +\d+ )?(?:Segmentation fault|Aborted|Killed|Terminated|Bus error"
    r"|Illegal instruction|Floating point exception)(?: \(core dumped\))?(?:  .*)?$",
    r"^Process \d+ exit with status code |^(?:\S+\.)?SignalException: Process \d+ got signal",
    r"Horovod detected that one or more processes exited",
    r"^command terminated with exit code|^ERROR conda\.cli\.main_run",
)
_BLAMED: Final = (r"^mpirun noticed that process |exits with return code = -",)
_ERROR: Final = (
    # Kept apart from exceptions: whose name is just that is a program's own word.
    r"^(?:[\w./-]+: )?(?:line \d+: )?(?:[Ee]rror|ERROR|[Ff]atal|FATAL)(?: error)?: (?![-\d.]+\b)",
    r"^(?:ERROR|FATAL|CRITICAL)\b|^.{0,80}?(?:\[(?:ERROR|FATAL|CRITICAL)\]"
    r"| (?:ERROR|FATAL|CRITICAL)[ :])",
    r"^[EF]\d{4} \d\d:\d\d:|^[EF] (?:tensorflow|external|xla)/|^\[[EF]\d* [\d:. ]*\w+\.cpp:\d+\]",
    r"^E: |^curl: \(\d+\) |^npm ERR! |^ssh: ",
    r"^\S.*: (?:command )?not found$|^\S.*: (?:No such file or directory|Permission denied"
    r"|No space left on device|Exec format error|Is a directory|Not a directory"
    r"|Cannot allocate memory|Disk quota exceeded|Input/output error)$",
    r": can't open file '|: Error while finding module specification for |: can't cd to "
    r"|: parameter not set$|: unbound variable$|: executable file not found in ",
    r"^\S+: error (?:writing|reading|opening|while) ",
    r"(?:^|\W)[Oo]ut of memory\b",
)
_RAISED: Final = (
    r"^Fatal Python error: |^panic: |^fatal error: (?:all goroutines|concurrent|unexpected signal)",
    r"^thread '[^']*' (?:\(\d+\) )?panicked at |^terminate called after |^what\(\): ",
    r"^Caused by: \S|^Exception in thread \"|^Uncaught exception|^Unhandled exception",
    r"^F\d{4} \d\d:\d\d:|^F (?:tensorflow|external|xla)/|\bCheck failed: ",
    r"\bAssertion [`'][^\n]{0,400}' failed\b|\*\*\* MPI_ERR_\w+: |^Fatal error in ",
    r"^(?:: )?(?:[A-Za-z_][\w$]*\.)*[A-Z][\w$]*"
    r"(?:Error|Exception|ExceptionGroup|Interrupt)(?:: |:?$)",
)
# First the exceptions: their names also end with "Error".
_ROWS: Final = tuple(
    (kind, re.compile("|".join(f"(?:{pattern})" for pattern in patterns)))
    for kind, patterns in (
        (Kind.NOISE, _NOISE),
        (Kind.REPORT, _REPORT),
        (Kind.BLAMED, _BLAMED),
        (Kind.RAISED, _RAISED),
        (Kind.ERROR, _ERROR),
    )
)
# In an error: then it is that of somebody whose peer is gone.
_FOLLOWED: Final = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|Socket closed"
    r"|remote process exited or there was a network error|ncclRemoteError"
    r"|Watchdog caught collective operation timeout|watchdog thread terminated"
    r"|Some NCCL operations have failed|taking the entire process down"
    r"|Timed out waiting \d+ms for (?:recv|send) operation|connectFullMesh failed"
    r"|failed to connect to all addresses|Horovod has been shut down|HorovodInternalError"
)

# What others put before each line: a rank, a worker, the time.
_PREFIX: Final = re.compile(
    r"\[rank\d+\]: ?"
    r"|\[default\d+\]: ?"
    r"|\[\d+(?:,\d+)?\]<std(?:err|out)>: ?"
    r"|\(\w+ pid=\d+(?:, ip=[\d.]+)?\) "
    r"|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:? "
    # pdsh: a host, which is a replica.
    r"|[a-z][a-z0-9-]{0,60}-\d+(?:\.[a-z0-9.-]{1,100})?: (?= |[A-Z\[])"
    # An exception group, whose parts stand further in.
    r"|  \| "
)
_PREFIXES_MAX: Final = 4

# What makes an error longer than what it says. Applied in this order.
_ABRIDGED: Final = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"^(?:- |Caused by: |Exception in thread \"[^\"]*\" |: )", ""),
        (r"^(?:[a-zA-Z_][\w$]*\.)+(?=[A-Z][\w$]*(?::|$))", ""),
        (r"^terminate called after throwing an instance of '([^']*)'$", r"\1:"),
        (r"^what\(\): +", ""),
        (r"^[EF]\d{4} [\d:.]+ +\d+ \S+\] ", ""),
        (r"^(?:\[[EF]\d* [\d:. ]*\w+\.cpp:\d+\] |[EF] \S+:\d+\] )", ""),
        (r"^\[(?:ERROR|CRITICAL)\] \[\w+\.py:\d+:\w+\] ", ""),
        (r"(?<=XGBoostError: )\[[\d:]+\] \S+?:\d+: ", ""),
        (r"(?:- )?\[\w+\.\w+:\d+\|[\d:]+\]:(?: |$)", ""),
        (r"\{\{function_node [^}]*\}\} ?", ""),
        (r" \[Op:\w+\](?: name: ?)?$", ""),
        (r"(?<=Error: )\[/[^\]\s]*\] ", ""),
        (r"\.? This is typically caused by a remote worker .*$", ""),
        (r"[ \t]+", " "),
    )
)
_UNSAID: Final = re.compile(r":$|Exception encountered when calling .*\.$")
_GROUP: Final = re.compile(r"\(\d+ sub-exceptions?\)$")


def kind_of(line: str) -> Kind:
    """What a line is, seen alone."""
    kind = next((kind for kind, pattern in _ROWS if pattern.search(line)), Kind.PLAIN)
    return weighed(kind, line)


def weighed(kind: Kind, words: str) -> Kind:
    """The kind of an error once all of it is known."""
    return Kind.FOLLOWED if kind >= Kind.ERROR and _FOLLOWED.search(words) else kind


def without_prefix(line: str) -> str:
    """The line as the program itself wrote it, with the blanks that it began with."""
    for _ in range(_PREFIXES_MAX):
        found = _PREFIX.match(line)
        if found is None:
            break
        line = line[found.end() :]
    return line


def abridged(words: str) -> str:
    """An error without what surrounds it: modules of its name, places in a source, log headers."""
    for pattern, instead in _ABRIDGED:
        words = pattern.sub(instead, words)
    return words.strip()


def announces(words: str) -> bool:
    """Whether the point of an error is in the lines below it."""
    return bool(_UNSAID.search(words))


def is_group(words: str) -> bool:
    """Whether it is an exception that stands for several, which follow it."""
    return bool(_GROUP.search(words))
