#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Standard streams that are closed, full or broken, and signals.

usage: run_streams.py PPTO [WORD]      TAP on standard output; with WORD only the tests that contain it"""

import os
import shlex
import signal
import subprocess
import sys
import time

from run_cli import CLEAN, check, expect, named, read, read_npy, run_tests


def closed_standard_output(ppto):
    command = f"exec {shlex.quote(ppto.ppto)} run '1 + 1' >&-"
    check(subprocess.run(["sh", "-c", command], capture_output=True, env=CLEAN), 3, err=["standard output"])


def closed_standard_files(ppto):
    """A closed descriptor 1 must not become the file that is written."""
    command = f"exec {shlex.quote(ppto.ppto)} run x x=x.npy -o closed.npy <&- >&- 2>&-"
    result = subprocess.run(["sh", "-c", command], env=CLEAN)
    expect(result.returncode == 0, result.returncode)
    expect(read_npy(read("closed.npy"))[2] == [1, 2, 3, 4, 5, 6], "wrong data")


def full_disk(ppto):
    if not os.path.exists("/dev/full"):
        return
    for args in (["run", "1 + 1"], ["ops"], ["--help"], ["run", "x", "x=x.npy", "-o", "-"]):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([ppto.ppto, *args], stdout=full, stderr=subprocess.PIPE, env=CLEAN)
        expect(result.returncode == 4, f"{args}: {result.returncode} {result.stderr}")
    check(ppto("run", "x", "x=x.npy", "-o", "/dev/full"), 4)


def broken_pipe(ppto):
    for args in (["run", "x", "x=f32[1000,1000]:zeros", "-o", "-"], ["ops", "--json"]):
        process = subprocess.Popen([ppto.ppto, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN)
        process.stdout.close()
        errors = process.stderr.read()
        expect(process.wait(60) == -signal.SIGPIPE and errors == b"", f"{args}: {process.returncode} {errors}")


def interrupted(ppto, number):
    os.makedirs("stop", exist_ok=True)
    args = ["bench", "sum(exp(x))", "x=f32[512,512]", "--repeat", "100000000"]
    process = subprocess.Popen([ppto.ppto, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN, cwd="stop")
    time.sleep(0.5)
    process.send_signal(number)
    start = time.monotonic()
    process.communicate(timeout=30)
    expect(process.returncode == 5, process.returncode)
    expect(time.monotonic() - start < 5, "slow")
    expect(os.listdir("stop") == [], os.listdir("stop"))


def waiting_for_a_pipe_is_interrupted(ppto):
    process = subprocess.Popen([ppto.ppto, "run", "x", "x=-", "-o", "never.npy"], stdin=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=CLEAN)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    expect(process.wait(30) == 5, process.returncode)
    process.stdin.close()
    process.stderr.close()
    expect(not os.path.exists("never.npy"), "a file appeared")


def all_tests():
    tests = named([closed_standard_output, closed_standard_files, full_disk, broken_pipe,
                   waiting_for_a_pipe_is_interrupted])
    return tests + [(f"{s.name} ends it with 5", lambda ppto, s=s: interrupted(ppto, s))
                    for s in (signal.SIGINT, signal.SIGTERM)]


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv, all_tests()))
