"""Keep one child process and stop it, with its whole process group, when its starter is gone.

    python supervise.py [--log FILE] [--remove FOLDER] [--grace SECONDS] -- COMMAND...

The starter keeps this program's standard input open. The end of that input (also when the starter was killed), SIGTERM, SIGINT and SIGHUP
all mean the same: SIGTERM to the group, SIGKILL after the grace, remove the folder, exit. Standard output carries three kinds of lines:
`started PID`, `exited CODE` (negative: a signal) and `failed TEXT` (the command could not be started). After `exited` the folder stays
until the input ends, so that the starter can read the log. Standard library only, and nothing of this project: it has to start fast.
"""

import argparse
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys

STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def main(arguments: list[str]) -> int:
    """Run the command until it has ended and the starter is gone or wants it stopped.

    Args:
        arguments: The command line without the program's name.

    Returns:
        0, or 127 when the command could not be started.
    """
    parser = argparse.ArgumentParser(prog="supervise")
    parser.add_argument("--log", default=os.devnull)
    parser.add_argument("--remove")
    parser.add_argument("--grace", type=float, default=10.0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    wake = _wake_on_signals()
    try:
        return _supervise(options.command, options.log, options.grace, wake)
    finally:
        if options.remove:
            shutil.rmtree(options.remove, ignore_errors=True)


def _wake_on_signals() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in STOP_SIGNALS | {signal.SIGCHLD}:
        signal.signal(number, lambda *_: None)
    return reader


def _supervise(command: list[str], log: str, grace: float, wake: int) -> int:
    try:
        with open(log, "ab") as output:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    except OSError as error:
        _tell(f"failed {error}")
        return 127
    _tell(f"started {child.pid}")
    while not _told_to_stop(wake):
        if child.returncode is None and child.poll() is not None:
            _signal_group(child.pid, signal.SIGKILL)  # what it has left behind
            _tell(f"exited {child.returncode}")
    if child.returncode is None:
        _stop(child, grace)
    return 0


def _told_to_stop(wake: int) -> bool:
    ready, _, _ = select.select([0, wake], [], [])
    if wake in ready and STOP_SIGNALS & set(os.read(wake, 512)):
        return True
    return 0 in ready and not os.read(0, 512)


def _stop(child: "subprocess.Popen[bytes]", grace: float) -> None:
    _signal_group(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=grace)
    _signal_group(child.pid, signal.SIGKILL)
    child.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(1, (line + "\n").encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
