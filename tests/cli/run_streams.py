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

from run_cli import CLEAN, check, expect, named, read, read_npy, run_tests, write


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


def nobody_reads(ppto, *args):
    process = subprocess.Popen([ppto.ppto, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=CLEAN)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    return process.wait(60), said


def broken_pipe(ppto):
    """What is printed ends quietly; a result that nobody reads to its end is told."""
    code, said = nobody_reads(ppto, "ops", "--json")
    expect((code, said) == (-signal.SIGPIPE, b""), (code, said))
    code, said = nobody_reads(ppto, "run", "x", "x=f32[1000,1000]:zeros", "-o", "-")
    expect(code == 3 and said == b"ppto: -: cannot write: Broken pipe, who read it has gone\n", (code, said))


def two_results(ppto):
    write("two.ppto", "input x: f32[N, 1024]\noutput a = x * 2\noutput b = x + 1\noutput total = sum(x)\n")
    check(ppto("run", "x", "x=f32[8192,1024]:random(3)", "-o", "rows.npy"), 0)
    check(ppto("run", "two.ppto", "x=rows.npy", "-o", "a=want_a.npy", "-o", "b=want_b.npy"), 0)


def a_lost_reader_spoils_no_other_result(ppto):
    two_results(ppto)
    for limit in ((), ("--memory-limit", "16M")):
        for also in ((), ("-o", "total=total.npz")):
            args = ("run", "two.ppto", "x=rows.npy", "-o", "a=-", "-o", "b=got_b.npy", *also, *limit)
            code, said = nobody_reads(ppto, *args)
            expect(code == 3 and b"-: cannot write: Broken pipe" in said, (args, code, said))
            expect(read("got_b.npy") == read("want_b.npy"), f"{args}: the other result")
            os.remove("got_b.npy")
            for name in also[1::2]:
                os.remove(name.split("=")[1])
        code, said = nobody_reads(ppto, "run", "x * 2", "x=rows.npy", "-o", "-", *limit)
        expect(code == 3 and said.count(b"\n") == 1, (code, said))


def results_flow_by_pieces(ppto):
    """To standard output under all its names and to named pipes, within a limit that does not hold the result."""
    two_results(ppto)
    limit = ("--memory-limit", "16M")
    run = [ppto.ppto, "run", "x * 2", "x=rows.npy", *limit, "-o"]
    for name in ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        got = subprocess.run(run + [name], env=CLEAN, capture_output=True, check=True).stdout
        expect(got == read("want_a.npy"), name)
        write("log", b"before ")
        with open("log", "ab") as log:  # what stands there stays
            subprocess.run(run + [name], env=CLEAN, stdout=log, check=True)
        expect(read("log") == b"before " + read("want_a.npy"), f"{name} appended to a file")
    os.mkfifo("one")
    os.mkfifo("other")
    with subprocess.Popen(run + ["one"], env=CLEAN) as writer:
        expect(read("one") == read("want_a.npy") and writer.wait(60) == 0, "a named pipe")
    both = [ppto.ppto, "run", "two.ppto", "x=rows.npy", "-o", "a=one", "-o", "b=other"]
    with subprocess.Popen(both, env=CLEAN) as writer:  # read one after the other
        expect(read("one") == read("want_a.npy") and read("other") == read("want_b.npy"), "two named pipes")
        expect(writer.wait(60) == 0, writer.returncode)
    check(ppto(*both[1:], *limit), 4, err=["other is written whole: of several pipes the first"])
    for names in (("a=one", "b=./one"), ("a=-", "b=/dev/stdout")):  # one pipe by two names
        check(ppto(*both[1:4], "-o", names[0], "-o", names[1]), 2, err=[f"both go to {names[1][2:]}"])
    with open("want_a.npy", "rb") as rows:
        twice = [ppto.ppto, "run", "x + y", "x=-", "y=/dev/stdin"]
        got = subprocess.run(twice, env=CLEAN, input=rows.read(), capture_output=True)
    expect(got.returncode == 3 and b"it is the pipe of the input -, which" in got.stderr, got.stderr)
    for name in ("one", "other", "log", "rows.npy", "want_a.npy", "want_b.npy"):
        os.remove(name)


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
                   a_lost_reader_spoils_no_other_result, results_flow_by_pieces, waiting_for_a_pipe_is_interrupted])
    return tests + [(f"{s.name} ends it with 5", lambda ppto, s=s: interrupted(ppto, s))
                    for s in (signal.SIGINT, signal.SIGTERM)]


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv, all_tests()))
