#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ppto command over files that take a while: progress, what an interruption leaves; and
over archives of arrays.

usage: run_files.py PPTO [WORD]      TAP on standard output; with WORD only the cases that contain it"""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
import zipfile

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


def archives_hold_several_arrays(ppto):
    write("three.ppto", "input x: f32[2, 3]\noutput y = x * 2\noutput total = sum(x)\noutput n = max(x)\n")
    for end in (".npz", ".safetensors"):
        name = "several" + end
        check(ppto("run", "three.ppto", "x=x.npy", "-o", f"y={name}", "-o", f"total={name}", "-o", f"n={name}:most"), 0)
        check(ppto("run", "a[1, 2] + b * c", f"a={name}:y", f"b={name}:total", f"c={name}:most"), 0, out=["138"])
        check(ppto("run", "x", f"x={name}"), 3, err=["3 arrays, say which by :NAME", "total"])
        check(ppto("run", "x", f"x={name}:z"), 3, err=["no array z", "total"])
        check(ppto("compare", f"{name}:total", f"{name}:total"), 0)
        before = read(name)
        check(ppto("run", "three.ppto", "x=x.npy", "-o", f"y={name}", "-o", f"total={name}:y"), 2, err=["of one name"])
        check(ppto("run", "take(x, i)", "x=y.npy", "i=i.npy", "-o", name), 2)
        expect(read(name) == before, f"{name} changed")


def archives_of_one_array_need_no_name(ppto):
    for end in (".npz", ".safetensors"):
        check(ppto("run", "x + 1", "x=x.npy", "-o", "one" + end), 0)
        check(ppto("run", "sum(x)", "x=one" + end), 0, out=["27"])
        check(ppto("run", "sum(x)", f"x=one{end}:arr_0"), 0, out=["27"])
        check(ppto("run", "x + 1", "x=x.npy", "-o", f"one{end}:w"), 0)
        check(ppto("run", "sum(w)", f"w=one{end}:w"), 0, out=["27"])


def an_archive_beside_other_results(ppto):
    check(ppto("run", "three.ppto", "x=x.npy", "-o", "y=some.npz", "-o", "total=some.npy", "-o", "n=some.safetensors"), 0)
    check(ppto("run", "sum(y) + t + n", "y=some.npz:y", "t=some.npy", "n=some.safetensors:n"), 0, out=["69"])


def files_without_a_header(ppto):
    """Read and written by pieces, through pipes too, with the bits of the NPY file."""
    limit = ("--memory-limit", "16M")
    check(ppto("run", "x", "x=f32[8192,1024]:random(3)", "-o", "plain.npy"), 0)
    check(ppto("run", "x", "x=plain.npy", "-o", "plain.raw", *limit), 0)
    expect(os.path.getsize("plain.raw") == 8192 * 1024 * 4, os.path.getsize("plain.raw"))
    expect(read("plain.npy").endswith(read("plain.raw")), "the data are not those of the NPY file")
    check(ppto("run", "x * 2", "x=plain.npy", "-o", "want.npy"), 0)
    check(ppto("run", "x * 2", "x=plain.raw:f32[N,1024]", "-o", "got.npy", *limit), 0)
    check(ppto("compare", "want.npy", "got.npy"), 0)
    os.rename("plain.raw", "plain.bin")
    with open("plain.bin", "rb") as data:
        pipe = subprocess.Popen(["cat"], stdin=data, stdout=subprocess.PIPE)
        command = [ppto.ppto, "run", "x * 2", "x=-:f32[8192,1024]", "-o", "got.npy", *limit]
        expect(subprocess.run(command, stdin=pipe.stdout, env=CLEAN, check=False).returncode == 0, "from a pipe")
        pipe.stdout.close()
        pipe.wait()
    check(ppto("compare", "want.npy", "got.npy"), 0)
    written = subprocess.run([ppto.ppto, "run", "x", "x=plain.bin:f32[N,1024]", "-o", "-:raw"], env=CLEAN, check=True,
                             stdout=subprocess.PIPE).stdout
    expect(written == read("plain.bin"), "to standard output")
    check(ppto("run", "x", "x=plain.bin"), 3, err=["does not say what is in it"])
    check(ppto("run", "x", "x=plain.bin:f32[7,1024]", "-o", "o.raw"), 3, err=["it has 33554432 bytes"])
    check(ppto("run", "x", "x=plain.bin:f32[N,1024]", "-o", "o.raw:f32[N]"), 2, err=[".raw"])
    for name in ("plain.npy", "plain.bin", "want.npy", "got.npy"):
        os.remove(name)


def safetensors_go_by_pieces(ppto):
    """Read and written within a limit that does not hold them, with the bits of the NPY file."""
    text = "(x - mean(x, axis=0)) * 2"
    limit = ("--memory-limit", "16M", "--stats")
    check(ppto("run", "x", "x=f32[8192,1024]:random(3)", "-o", "pieces.npy"), 0)
    check(ppto("run", "x", "x=pieces.npy", "-o", "pieces.safetensors", *limit), 0)
    check(ppto("run", text, "x=pieces.npy", "-o", "want.npy", *limit), 0)
    check(ppto("run", text, "x=pieces.safetensors", "-o", "got.safetensors:y", *limit), 0)
    check(ppto("compare", "want.npy", "got.safetensors"), 0)
    check(ppto("run", text, "x=pieces.safetensors", "-o", "got.npz", *limit), 0)
    check(ppto("compare", "want.npy", "got.npz"), 0)
    check(ppto("run", "x.T", "x=pieces.npy", "-o", "got.npz", *limit), 4, err=["transpose", "least limit"])


def explain_tells_the_pieces(ppto):
    """What explain says of a run is what the run does: pieces, peak, refusal."""
    check(ppto("run", "x", "x=f32[8192,1024]:random(3)", "-o", "pieces.npy"), 0)
    for text in ("softmax(x)", "mean(x, axis=0)", "(x - mean(x, axis=0)) * 2", "sum(x)", "cumulative_sum(x, axis=0)"):
        for limit in ((), ("--memory-limit", "16M"), ("--memory-limit", "40M")):
            run = ("x=pieces.npy", "-o", "told.npy", *limit)
            told = json.loads(check(ppto("explain", text, *run, "--json"), 0).stdout)
            check(ppto("run", text, *run, "--stats-json", "told.json"), 0)
            did = json.loads(read("told.json"))
            expect(told["predicted_peak_bytes"] == did["predicted_peak_bytes"] == did["measured_peak_bytes"], (text, told, did))
            pieces = told["pieces"]
            expect(pieces["input"] == "x" and pieces["rows"] == 8192, pieces)
            over = limit and pieces["whole_peak_bytes"] > int(limit[1][:-1]) << 20
            expect(pieces["because"] == ("limit" if over else "file"), pieces)
            for one in pieces["passes"]:
                expect((one["pieces"] - 1) * one["rows"] < 8192 <= one["pieces"] * one["rows"], one)
                expect(one["reads"] == ["pieces.npy"], one)
            check(ppto("explain", text, *run), 0, out=["pieces\n  of x along axis 0, 8192 rows", " rows; reads pieces.npy"])


def explain_tells_what_prevents_pieces(ppto):
    check(ppto("run", "x", "x=f32[8192,1024]:random(3)", "-o", "pieces.npy"), 0)
    run = ("x.T + 1", "x=pieces.npy", "-o", "told.npy")
    told = json.loads(check(ppto("explain", *run, "--json"), 0).stdout)
    prevents = told["not_by_pieces"]
    expect(told["pieces"] is None and prevents["operator"] == "add" and not prevents["refused"], told)
    check(ppto("run", *run, "--stats-json", "told.json"), 0)
    expect(told["predicted_peak_bytes"] == json.loads(read("told.json"))["measured_peak_bytes"], told)
    check(ppto("explain", *run), 0, out=["in one piece because of add"])
    limit = ("--memory-limit", "16M")
    prevents = json.loads(check(ppto("explain", *run, *limit, "--json"), 0).stdout)["not_by_pieces"]
    expect(prevents["refused"] and prevents["least_limit_bytes"] == told["predicted_peak_bytes"], prevents)
    check(ppto("explain", *run, *limit), 0, out=["refused because of add", f"least limit     {prevents['least_limit_bytes']} bytes"])
    check(ppto("run", *run, *limit), 4, err=["because of add", f"would do is {prevents['least_limit_bytes']}"])
    told = json.loads(check(ppto("explain", "softmax(x)", "x=pieces.npy", "--memory-limit", "1000", "--json"), 0).stdout)
    prevents = told["not_by_pieces"]
    expect(prevents["operator"] is None and prevents["refused"], told)
    most = prevents["most_for"]
    expect(most["operator"] == "softmax" and prevents["reason"].endswith(f", {most['bytes']} bytes"), prevents)
    least = prevents["least_limit_bytes"]
    check(ppto("explain", "softmax(x)", "x=pieces.npy", "--memory-limit", str(least)), 0, out=["because the memory limit"])
    check(ppto("explain", "softmax(x)", "x=pieces.npy", "--memory-limit", str(least - 1)), 0, out=["the run is refused"])
    told = json.loads(check(ppto("explain", "softmax(x)", "x=f32[4,4]", "--json"), 0).stdout)
    expect(told["pieces"] is None and told["not_by_pieces"] is None, told)


def zipped(name, array_bytes, method):
    with zipfile.ZipFile(name, "w", method) as archive:
        archive.writestr("x.npy", array_bytes)


def archives_and_pipes_go_by_pieces(ppto):
    """Read from first to last within a limit that does not hold them, once or several times, with the bits of the file."""
    limit = ("--memory-limit", "3M")
    check(ppto("run", "x", "x=i32[8192,128]:integers(-9,9)", "-o", "whole.npy"), 0)
    data = read("whole.npy")
    zipped("stored.npz", data, zipfile.ZIP_STORED)
    zipped("deflated.npz", data, zipfile.ZIP_DEFLATED)
    for text in ("x * 2", "x[3:] - x[:-3]", "x[5::2] + 1", "sum(x, axis=0)", "x - max(x, axis=0)"):
        check(ppto("run", text, "x=whole.npy", "-o", "want.npy", *limit), 0)
        for name in ("stored.npz", "deflated.npz"):
            check(ppto("run", text, f"x={name}", "-o", "got.npy", *limit), 0)
            check(ppto("compare", "want.npy", "got.npy"), 0)
        twice = "max" in text
        result = ppto("run", text, "x=-", "-o", "got.npy", *limit, stdin=data)
        check(result, 4 if twice else 0, err=["- is read whole: a pipe is read once and in order"] if twice else [])
        if not twice:
            check(ppto("compare", "want.npy", "got.npy"), 0)
        with open("whole.npy", "rb") as file:  # standard input that has places
            subprocess.run([ppto.ppto, "run", text, "x=-", "-o", "got.npy", *limit], stdin=file, env=CLEAN, check=True,
                           capture_output=True)
        check(ppto("compare", "want.npy", "got.npy"), 0)
    check(ppto("run", "flip(x, axis=0)", "x=stored.npz", "-o", "got.npy", *limit), 4, err=["stored.npz is read whole"])
    check(ppto("run", "flip(x, axis=0)", "x=stored.npz", "-o", "got.npy"), 0)
    said = ppto("run", "x - max(x, axis=0)", "x=-", "-o", "got.npy", *limit, stdin=data).stderr
    expect(said.index(b"- is read whole") < said.index(b"the least limit") and b"most is for" not in said, said)
    with open("x.npy", "rb") as file:
        small = subprocess.run([ppto.ppto, "run", "sum(x)", "x=-"], stdin=file, env=CLEAN, capture_output=True)
    check(small, 0, out=["21"])


def what_makes_a_result_whole_is_told(ppto):
    """A result for two places, or printed besides, is held whole: a refusal says so before it blames an operator."""
    check(ppto("run", "x", "x=i32[8192,128]:integers(-9,9)", "-o", "twice.npy"), 0)
    limit = ("--memory-limit", "3M")
    check(ppto("run", "x * 2", "x=twice.npy", "-o", "got.npy", *limit), 0)
    for more, told in (
            (("-o", "-"), "one result goes to two places, got.npy and -, and so is whole in memory: piece by piece"),
            (("--json",), "the result for got.npy is printed too")):
        check(ppto("run", "x * 2", "x=twice.npy", "-o", "got.npy", *more, *limit), 4, err=[told])
        check(ppto("run", "x * 2", "x=twice.npy", "-o", "got.npy", *more), 0)
    check(ppto("run", "x[0] * 2", "x=twice.npy", "-o", "got.npy", "-o", "-", *limit), 0)


def archives_are_written_by_pieces(ppto):
    """The bytes of a run in one piece, within a limit that does not hold them; and beside other results."""
    limit = ("--memory-limit", "2M")
    check(ppto("run", "x", "x=i32[6001,128]:integers(-9,9)", "-o", "three.npy"), 0)
    for text in ("x * 2", "flip(x, axis=0)", "x[3:] - x[:-3]", "x - max(x, axis=0)", "sum(x, axis=1)"):
        check(ppto("run", text, "x=three.npy", "-o", "whole.npz:y"), 0)
        check(ppto("run", text, "x=three.npy", "-o", "parts.npz:y", *limit), 0)
        expect(read("whole.npz") == read("parts.npz"), text)
    write("two.ppto", "input x: i32[N, M]\noutput y = x * 2\noutput z = x + 1\n")
    check(ppto("run", "two.ppto", "x=three.npy", "-o", "y=parts.npz:y", "-o", "z=z.npz", *limit), 0)
    check(ppto("run", "all(y == z * 2 - 2)", "y=parts.npz:y", "z=z.npz"), 0, out=["true"])


def begun_archive(ppto, **more):
    """A run that has written a part of old.npz and waits for more of its input."""
    check(ppto("run", "x", "x=i32[3]:ones", "-o", "old.npz"), 0)
    command = subprocess.Popen([ppto.ppto, "run", "x * 2", "x=-", "-o", "old.npz", "--memory-limit", "2M"], env=CLEAN,
                               stdin=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    head = npy("<i4", (1 << 16, 128), [])
    try:
        command.stdin.write(head + bytes(16 << 20))  # half of it: more than windows hold
        command.stdin.flush()
    except BrokenPipeError:
        pass  # it failed before
    return command


def an_archive_that_is_given_up_leaves_the_old_one(ppto):
    """Killed, told to end, at the end of its input and at a full disk."""
    before = set(os.listdir("."))
    for number in (signal.SIGKILL, signal.SIGTERM):
        command = begun_archive(ppto)
        command.send_signal(number)
        command.communicate()
        expect(command.returncode == (-9 if number == signal.SIGKILL else 5), f"{number}: {command.returncode}")
        check(ppto("run", "sum(x)", "x=old.npz"), 0, out=["3"])
    command = begun_archive(ppto)
    said = command.communicate()[1]
    expect(command.returncode == 3 and b"-" in said, said)
    check(ppto("run", "sum(x)", "x=old.npz"), 0, out=["3"])
    for most in (1, 100000, 9 << 20):  # the head, the first piece, a later one
        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        command = begun_archive(ppto, preexec_fn=small_files)
        said = command.communicate()[1]
        expect(command.returncode == 4 and b"old.npz" in said, f"{most}: {command.returncode} {said}")
        check(ppto("run", "sum(x)", "x=old.npz"), 0, out=["3"])
    expect(set(os.listdir(".")) == before | {"old.npz"}, os.listdir("."))


def broken_ends_are_told(ppto):
    """A wrong checksum, a pipe that ends too early or goes on: no result, and none that was there is lost."""
    check(ppto("run", "x", "x=i32[9000,128]:integers(-9,9)", "-o", "whole.npy"), 0)
    data = read("whole.npy")
    zipped("wrong.npz", data, zipfile.ZIP_STORED)
    archive = bytearray(read("wrong.npz"))
    archive[len(archive) - 2000] ^= 1
    write("wrong.npz", bytes(archive))
    write("kept.npy", b"kept")
    check(ppto("run", "x * 2", "x=wrong.npz", "-o", "kept.npy"), 3, err=["wrong.npz"])
    check(ppto("run", "x * 2", "x=-", "-o", "kept.npy", stdin=data[:-4000]), 3, err=["the data end too early"])
    check(ppto("run", "x * 2", "x=-", "-o", "kept.npy", stdin=data + b"more"), 3, err=["bytes follow the array"])
    expect(read("kept.npy") == b"kept", "the old result is lost")


def fortran_files_go_by_pieces(ppto):
    values = list(range(900000))
    write("c.npy", npy("<i4", (30000, 30), values))
    columns = [value for c in range(30) for value in values[c::30]]
    write("f.npy", npy("<i4", (30000, 30), columns, fortran=True))
    write("fb.npy", npy(">i4", (30000, 30), columns, fortran=True))
    for text in ("x * 2", "x[3:] - x[:-3]", "x - max(x, axis=0)", "flip(x, axis=0)"):
        check(ppto("run", text, "x=c.npy", "-o", "want.npy"), 0)
        for name in ("f.npy", "fb.npy"):
            check(ppto("run", text, f"x={name}", "-o", "got.npy", "--memory-limit", "2M"), 0)
            check(ppto("compare", "want.npy", "got.npy"), 0)


def hostile_archives(ppto):
    write("bad.npz", b"PK\x05\x06 no archive")
    write("bad.safetensors", b"\x02\0\0\0\0\0\0\0[]")
    for name in ("bad.npz", "bad.safetensors", "nowhere.npz", "x.npy.npz:y"):
        check(ppto("run", "x", f"x={name}"), 3, err=[name])


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


def interrupted_runs_are_told(ppto):
    """The reports of a run that a signal ends: written whole, and the failure is in the trace."""
    if os.path.exists("stop.json"):
        os.remove("stop.json")
    interrupted(ppto, signal.SIGTERM, False, "--trace", "stop.json")
    events = json.loads(read("stop.json"))["traceEvents"]
    moments = [e["name"] for e in events if e["ph"] == "i"]
    expect(len(moments) == 1 and "cancelled" in moments[0], moments)


def archives_are_built_in(ppto):
    modules = json.loads(subprocess.run([ppto, "info", "--json"], capture_output=True, env=CLEAN, check=True).stdout)["modules"]
    return all(m["available"] for m in modules if m["name"] in ("npz", "safetensors"))


def reports_to_a_pipe_can_be_interrupted(ppto):
    """A named pipe that nobody reads: SIGTERM ends the command while it waits to write a report."""
    os.mkfifo("report")
    for option in ("--trace", "--stats-json", "--memcheck-json", "--timeline"):
        command = subprocess.Popen([ppto.ppto, "run", "x + 1", "x=f32[3]:ones", "-o", "before_report.npy", option, "report"],
                                   env=CLEAN, stderr=subprocess.DEVNULL)
        while not os.path.exists("before_report.npy"):
            time.sleep(0.01)
        command.terminate()
        expect(command.wait() == 5, f"{option}: exit {command.returncode}")
        os.remove("before_report.npy")
    os.remove("report")


def tests(ppto):
    result = [interrupted_runs_are_told, progress_on_a_terminal, progress_of_a_failure_leaves_the_error,
              no_progress_without_a_terminal, explain_tells_the_pieces, what_makes_a_result_whole_is_told,
              explain_tells_what_prevents_pieces,
              reports_to_a_pipe_can_be_interrupted, fortran_files_go_by_pieces, files_without_a_header]
    if archives_are_built_in(ppto):
        result += [archives_hold_several_arrays, archives_of_one_array_need_no_name, an_archive_beside_other_results,
                   safetensors_go_by_pieces, archives_and_pipes_go_by_pieces, archives_are_written_by_pieces,
                   an_archive_that_is_given_up_leaves_the_old_one, broken_ends_are_told, hostile_archives]
    result = [(test.__name__.replace("_", " "), test) for test in result]
    for number in (signal.SIGINT, signal.SIGTERM):
        for old in (False, True):
            for more in ((), ("--progress",), ("--threads", "1", "--executor", "serial")):
                name = f"{number.name} leaves {'the old file' if old else 'no file'} {' '.join(more)}".strip()
                result.append((name, lambda ppto, a=(number, old, *more): interrupted(ppto, *a)))
    return result


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv, tests(sys.argv[1])))
