#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ppto command over files that take a while: progress, and what an interruption leaves.

usage: run_files.py PPTO [WORD]      TAP on standard output; with WORD only the cases that contain it"""

import os
import pty
import signal
import subprocess
import sys
import time

from run_cli import CLEAN, check, expect, npy, read, run_tests, write

ROWS, COLUMNS = 1 << 17, 1024
LONG = "astype(" + "tanh(exp(sin(" * 12 + "x" + ")))" * 12 + ", 'u8')"


def large(name):
    """An array of half a GiB of zeros that takes no room on the disk."""
    if os.path.exists(name):
        return
    head = npy("<f4", (ROWS, COLUMNS), [])
    write(name, head)
    os.truncate(name, len(head) + 4 * ROWS * COLUMNS)


def on_a_terminal(ppto, *args):
    """(exit code, what came on standard error) with a terminal there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([ppto.ppto, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs, env=CLEAN)
    os.close(theirs)
    said = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        said += more
    os.close(ours)
    process.stdout.close()
    return process.wait(60), said


def progress_on_a_terminal(ppto):
    large("large.npy")
    code, said = on_a_terminal(ppto, "run", "sum(x)", "x=large.npy", "--progress")
    expect(code == 0 and b"\r  0%" in said and b"\r100%  512 MiB" in said, (code, said))
    expect(said.endswith(b"\r\n"), said)
    code, said = on_a_terminal(ppto, "run", "sum(x)", "x=large.npy")
    expect((code, said) == (0, b""), (code, said))
    code, said = on_a_terminal(ppto, "run", "x * 2", "x=f32[8,4]", "-o", "small.npy", "--progress")
    expect(code == 0 and b"100%" in said, (code, said))


def progress_of_a_failure_leaves_the_error(ppto):
    code, said = on_a_terminal(ppto, "run", "reshape(x, [n])", "x=x.npy", "n=7", "--progress", "--color", "never")
    expect(code != 0 and said.split(b"\033[K")[-1].startswith(b"ppto: "), (code, said))


def no_progress_without_a_terminal(ppto):
    result = check(ppto("run", "x * 2", "x=x.npy", "-o", "quiet.npy", "--progress"), 0)
    expect(result.stderr == b"" and result.stdout == b"", result)


def is_writing(process, folder):
    """A file in the folder is open; it may have no name yet."""
    descriptors, inside = f"/proc/{process.pid}/fd", os.path.realpath(folder) + "/"
    try:
        return any(os.readlink(f"{descriptors}/{fd}").startswith(inside) for fd in os.listdir(descriptors))
    except OSError:  # it has ended, or closed one meanwhile
        return False


def interrupted(ppto, number, old, *more):
    """The signal, twice as `timeout` sends it, comes when the unfinished file is open."""
    large("large.npy")
    os.makedirs("stop", exist_ok=True)
    for name in os.listdir("stop"):
        os.remove(os.path.join("stop", name))
    if old:
        write("stop/out.npy", b"old")
    process = subprocess.Popen([ppto.ppto, "run", LONG, "x=large.npy", "-o", "stop/out.npy", *more], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=CLEAN)
    until = time.monotonic() + 60
    while not is_writing(process, "stop") and process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    process.send_signal(number)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    expect(process.returncode == 5 and said == b"ppto: interrupted\n", (process.returncode, said))
    expect(os.listdir("stop") == ["out.npy"] * old, os.listdir("stop"))
    expect(not old or read("stop/out.npy") == b"old", "the old file changed")


def tests():
    result = [progress_on_a_terminal, progress_of_a_failure_leaves_the_error, no_progress_without_a_terminal]
    result = [(test.__name__.replace("_", " "), test) for test in result]
    for number in (signal.SIGINT, signal.SIGTERM):
        for old in (False, True):
            for more in ((), ("--progress",), ("--threads", "1", "--executor", "serial")):
                name = f"{number.name} leaves {'the old file' if old else 'no file'} {' '.join(more)}".strip()
                result.append((name, lambda ppto, a=(number, old, *more): interrupted(ppto, *a)))
    return result


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv, tests()))
