"""What lines of logs look like that tell of a failure, and those that seem to: a table.

`log_tail` and `last_words` read a log's end by it. A row is a kind and its patterns; the first row
that matches decides. Whoever meets a launcher or a library whose last line hides the error adds a
pattern here, and the log to tests/plan/last_words. Patterns have but one way to match a text, so
that their time is linear in its length.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple


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


class _Signs(NamedTuple):
    """How lines of a kind begin, and what they have in them somewhere."""

    kind: Kind
    begin: tuple[str, ...]
    have: tuple[str, ...] = ()


_LEVELS: Final = r"(?:ERROR|FATAL|CRITICAL)"
_ROWS: Final = (
    _Signs(
        Kind.NOISE,
        begin=(
            # Rulers.
            r"[-=*_#+~^. ]{3,}$",
            # Frames: C++ of XGBoost, PyTorch and Open MPI, Java, Go, Python's faulthandler.
            r"\[bt\] \(\d+\)|frame #\d+:|Stack trace:$|Exception raised from .*call first\)",
            r"\[[\w.-]+:\d+\] (?:\[ ?\d+\] |\*\*\* (?:Process rec|End of )|Signal|Failing at)",
            r"at [\w.$/@<>-]+\(|\.\.\. \d+ (?:more|common frames omitted)$|Driver stacktrace:$",
            r"goroutine \d+ |created by .* in goroutine|\S+\.go:\d+ \+0x",
            r"(?:Current t|T)hread 0x[0-9a-f]+ |Extension modules: |File \"[^\"]*\", line \d+ in ",
            r"Traceback \(most recent call|During handling of the above|The above exception was",
            r"\[Previous line repeated \d+ more times?\]$",
            # Hints that follow an error, and warnings.
            r"(?:traceback +: )?To enable traceback see|(?:NOTE|Note|note|Hint|hint|HINT): ",
            r"wandb: |\S+:\d+: \w*Warning: |warnings\.warn\(|To enable the following instructions",
            r"WARNING: All log messages before absl|Node\.js v\d",
            # What libraries log while all is well; Google's logs begin with the level.
            r"[IW]\d{4} \d\d:\d\d:|[IW] (?:tensorflow|external|xla)/|\[[IW]\d* [\d:. ]*\w+\.cpp:",
            r"E\d{4} \d\d:\d\d:[\d.]+ +\d+ \S*torch/distributed/elastic/",
            r"\[(?:INFO|WARNING)\] \[\w+\.py:\d+:",
            # Of launchers and others that say the same at every failure.
            r"(?:\w+\.)*ChildFailedError: ?$|<NO_OTHER_FAILURES>$",
            r"Primary job +terminated normally|mpirun detected that one or more processes exited",
            r"\d+ total processes failed to start$|ORTE was unable to reliably start",
            r"Command: '|Exit code: +\d+$|Process name: +\S+$|Std(?:out|err): already printed$",
            r"=+ (?:Train|Stopp)ing |\S+: (?:failure|finish)$",
            r"tar: (?:Child returned|Error is not recoverable|Exiting with)",
        ),
        have=(
            r"Unable to register cu\w+ factory|computation placer already|failed call to cuInit",
            # ColossalAI prints all variables of its environment, and what is in them.
            r"\" && torchrun ",
        ),
    ),
    _Signs(
        Kind.REPORT,
        begin=(
            r"(?:subprocess\.)?CalledProcessError: |command terminated with exit code",
            r"Error: failed to run .* Encountered a bad command exit code!$",
            r"make(?:\[\d+\])?: \*\*\* |pdsh@\S+: |srun: error: .* Exited with ",
            r"MPI_ABORT was invoked on rank |Process \d+ exit with status code ",
            r"(?:\S+: line \d+: +\d+ )?(?:Segmentation fault|Aborted|Killed|Terminated|Bus error"
            r"|Illegal instruction|Floating point exception)(?: \(core dumped\))?(?:  .*)?$",
            r"(?:\w+\.)*SignalException: Process \d+ got signal|ERROR conda\.cli\.main_run",
        ),
        have=(r"exits with return code = \d|Horovod detected that one or more processes exited",),
    ),
    _Signs(
        Kind.BLAMED,
        begin=(r"mpirun noticed that process ",),
        have=(r"exits with return code = -",),
    ),
    # Before errors, because the names of exceptions end like one.
    _Signs(
        Kind.RAISED,
        begin=(
            r"Fatal Python error: |panic: |fatal error: (?:all goroutines|unexpected signal)",
            r"thread '[^']*' (?:\(\d+\) )?panicked at |terminate called after |what\(\): ",
            r"Caused by: \S|Exception in thread \"|Uncaught exception|Unhandled exception",
            r"F\d{4} \d\d:\d\d:|F (?:tensorflow|external|xla)/|Fatal error in ",
            r"(?:: )?(?:[A-Za-z_][\w$]*\.)*[A-Z][\w$]*"
            r"(?:Error|Exception|ExceptionGroup|Interrupt)(?:: |:?$)",
        ),
        have=(r"\bCheck failed: |\bAssertion [`'][^\n]{0,400}' failed\b|\*\*\* MPI_ERR_\w+: ",),
    ),
    _Signs(
        Kind.ERROR,
        begin=(
            # A figure may be called an error too.
            r"(?:[\w./:-]+: )?(?:line \d+: )?(?:[Ee]rror|ERROR|[Ff]atal|FATAL)(?: error)?: "
            r"(?![-\d.]+\b)",
            rf"{_LEVELS}\b|.{{0,80}}?(?:\[{_LEVELS}\]| {_LEVELS}[ :])",
            r"[EF]\d{4} \d\d:\d\d:|[EF] (?:tensorflow|external|xla)/|\[[EF]\d* [\d:. ]*\w+\.cpp:",
            r"E: |curl: \(\d+\) |npm ERR! |ssh: |\S+: error (?:writing|reading|opening|while) ",
            r"\S.*: (?:(?:command )?not found|No such file or directory|Permission denied"
            r"|No space left on device|Exec format error|Is a directory|Not a directory"
            r"|Cannot allocate memory|Disk quota exceeded|Input/output error|not in gzip format"
            r"|parameter not set|unbound variable)$",
        ),
        have=(
            r": can't (?:open file '|cd to )|: Error while finding module specification for ",
            r": executable file not found in |\b[Oo]ut of memory\b",
            # Logs for machines.
            r'"(?:level|severity)": ?"(?i:error|fatal|critical)"',
            r"\blevel=(?:error|fatal|critical)\b",
        ),
    ),
)


def _either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or r"(?!)")


@cache
def _table() -> tuple[tuple[Kind, re.Pattern[str], re.Pattern[str]], ...]:
    """Compiled when a log is first read: it takes as long as a short job."""
    return tuple((row.kind, _either(row.begin), _either(row.have)) for row in _ROWS)


# In an error: then it is that of somebody whose peer is gone.
_FOLLOWED: Final = (
    r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|Socket closed"
    r"|remote process exited or there was a network error|ncclRemoteError"
    r"|Watchdog caught collective operation timeout|watchdog thread terminated|detected by watchdog"
    r"|Some NCCL operations have failed|taking the entire process down"
    r"|Timed out waiting \d+ms for (?:recv|send) operation|connectFullMesh failed"
    r"|failed to connect to all addresses|Horovod has been shut down|HorovodInternalError"
)

# What others put before each line: a rank, a worker, the time.
_PREFIX: Final = (
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
_ABRIDGED: Final = (
    (r"^(?:- |Caused by: |Exception in thread \"[^\"]*\" |: )", ""),
    (r"^(?:[a-zA-Z_][\w$]*\.)+(?=[A-Z][\w$]*(?::|$))", ""),
    (r"^terminate called after throwing an instance of '([^']*)'$", r"\1:"),
    (r"^what\(\): +", ""),
    (r"^[EF]\d{4} [\d:.]+ +\d+ \S+\] ", ""),
    (r"^(?:\[[EF]\d* [\d:. ]*\w+\.cpp:\d+\] |[EF] \S+:\d+\] )", ""),
    (r"^\[(?:ERROR|CRITICAL)\] \[\w+\.py:\d+:\w+\] ", ""),
    (r"^\['[^']*/python[\d.]*', (?:'-u', )?", "["),
    (r"^(Error: failed to run \w+) .* (on \S+), is localhost: \w+, exception: ", r"\1 \2: "),
    (r"(?<=XGBoostError: )\[[\d:]+\] \S+?:\d+: ", ""),
    (r"(?:- )?\[\w+\.\w+:\d+\|[\d:]+\]:(?: |$)", ""),
    (r"\{\{function_node [^}]*\}\} ?", ""),
    (r" \[Op:\w+\](?: name: ?)?$", ""),
    (r"(?<=Error: )\[/[^\]\s]*\] ", ""),
    (r"\.? This is typically caused by a remote worker .*$", ""),
    (r"[ \t]+", " "),
)
_UNSAID: Final = re.compile(r":$|Exception encountered when calling .*\.$")
_GROUP: Final = re.compile(r"\(\d+ sub-exceptions?\)$")


def kind_of(line: str) -> Kind:
    """What a line is, seen alone."""
    for kind, begin, have in _table():
        if begin.match(line) or have.search(line):
            return weighed(kind, line)
    return Kind.PLAIN


def weighed(kind: Kind, words: str) -> Kind:
    """The kind of an error once all of it is known."""
    return Kind.FOLLOWED if kind >= Kind.ERROR and re.search(_FOLLOWED, words) else kind


def without_prefix(line: str) -> str:
    """The line as the program itself wrote it, with the blanks that it began with."""
    for _ in range(_PREFIXES_MAX):
        found = re.match(_PREFIX, line)
        if found is None:
            break
        line = line[found.end() :]
    return line


def abridged(words: str) -> str:
    """An error without what surrounds it: modules of its name, places in a source, log headers."""
    for pattern, instead in _ABRIDGED:
        words = re.sub(pattern, instead, words)
    return words.strip()


def announces(words: str) -> bool:
    """Whether the point of an error is in the lines below it."""
    return bool(_UNSAID.search(words))


def is_group(words: str) -> bool:
    """Whether it is an exception that stands for several, which follow it."""
    return bool(_GROUP.search(words))
