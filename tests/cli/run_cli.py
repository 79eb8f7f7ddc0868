#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the ppto command as a user would: exit codes, standard output and standard error of every case in cases.txt,
and what needs more than one line: promised JSON keys, files that must not change. Standard streams and signals are
run_streams.py's, reports of memory run_memcheck.py's.

usage: run_cli.py PPTO [WORD]      TAP on standard output; with WORD only the cases that contain it

Files for the cases are made here, without NumPy, in a folder of their own that every case starts in."""

import array
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CODES = {"<f4": "f", "<f8": "d", "|i1": "b", "<i4": "i", "<i8": "q", "|u1": "B", "|b1": "B", "<u8": "Q"}


def npy(descr, shape, values, fortran=False, version=1):
    """Bytes of an NPY file."""
    head = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple(shape)}, }}"
    size = 10 if version == 1 else 12
    head = head.ljust(64 * ((size + len(head) + 64) // 64) - size - 1) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(head))
    data = array.array(CODES[descr.replace(">", "<")], values)
    if descr.startswith(">"):
        data.byteswap()
    return b"\x93NUMPY" + bytes([version, 0]) + length + head.encode("latin-1") + data.tobytes()


def read_npy(data):
    """(descr, shape, values) of bytes as npy() makes them."""
    assert data[:6] == b"\x93NUMPY", data[:20]
    start, length = (10, struct.unpack("<H", data[8:10])[0]) if data[6] == 1 else (12, struct.unpack("<I", data[8:12])[0])
    head = eval(data[start:start + length].decode("latin-1"), {"__builtins__": {}})  # our own output
    values = array.array(CODES[head["descr"]])
    values.frombytes(data[start + length:])
    return head["descr"], head["shape"], list(values)


def write(name, data):
    os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    with open(name, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def read(name):
    with open(name, "rb") as file:
        return file.read()


def make_files():
    good = npy("<f4", (2, 3), [1, 2, 3, 4, 5, 6])
    write("x.npy", good)
    write("v2.npy", npy("<f4", (2, 3), [1, 2, 3, 4, 5, 6], version=2))
    write("big_endian.npy", npy(">f4", (2, 3), [1, 2, 3, 4, 5, 6]))
    write("fortran.npy", npy("<f4", (2, 3), [1, 4, 2, 5, 3, 6], fortran=True))
    write("y.npy", npy("<f4", (3,), [10, 20, 30]))
    write("i.npy", npy("<i4", (4,), [3, 1, 2, 0]))
    write("u8.npy", npy("|u1", (3,), [1, 2, 3]))
    write("mask.npy", npy("|b1", (3,), [1, 0, 1]))
    write("scalar.npy", npy("<f8", (), [2.5]))
    write("empty.npy", npy("<f4", (0, 3), []))
    write("long.npy", npy("<f4", (1001,), [1.0] * 1001))
    write("most.npy", npy("<f4", (1000,), [1.0] * 1000))
    write("nan.npy", npy("<f4", (2,), [float("nan"), float("inf")]))
    write("near.npy", npy("<f4", (2, 3), [1, 2, 3, 4, 5, 6.0001]))
    write("other_type.npy", npy("<f8", (2, 3), [1, 2, 3, 4, 5, 6]))
    write("text.npy", "this is no array\n")
    write("short.npy", good[:-4])
    write("trailing.npy", good + b"\0")
    write("nothing.npy", b"")
    write("object.npy", good.replace(b"'<f4'", b"'|O' "))
    write("complex.npy", good.replace(b"'<f4'", b"'<c8'"))
    write("program.ppto", "input x: f32[N, 3]\nh = x * 2\noutput y = h + 1, total = sum(h)\n")
    write("free.ppto", "# free names are the inputs\nh = x + 1\nh * y\n")
    write("two.ppto", "input x: f32[N, 3]\ninput w: f32[3]\noutput a = x * w, b = x\n")
    write("agree.ppto", "input x: f32[N]\ninput z: f32[N]\noutput y = x + z\n")
    write("number.ppto", "input t: f32[]\noutput y = t * 2\n")
    write("byte.ppto", "input n: u8[]\noutput y = n\n")
    write("broken.ppto", "output y = (1 +\n")
    write("broken.xml", "<topology><object type='PU'></topology>\n")
    write("binary.ppto", b"output y = 1\0\xff\n")
    write("none.ppto", "h = 1\n")
    write("ops.ppto", "## Twice.\nop twice(x: num) = x + x\n")
    write("more.ppto", "op thrice(x: num) = twice(x) + x\n")
    write("other_twice.ppto", "op twice(x: num) = 2 * x\n")
    write("bad_ops.ppto", "op twice(x num) = x\n")
    write("folder/model", "output y = 1 + 1\n")
    write("a/b", "output y = 40 + 2\n")
    os.mkdir("dir.npy")
    os.mkdir("dir.ppto")
    write("locked/keep.npy", good)
    write("with space.npy", good)
    write("caf\udce9.npy".encode("utf-8", "surrogateescape"), good)
    write("f32[2]", npy("<f4", (2,), [7, 8]))


# ---- running and judging ----

class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


CLEAN = {k: v for k, v in os.environ.items()
         if not k.startswith("PPTO_") and k not in ("NO_COLOR", "CLICOLOR_FORCE", "POSIXLY_CORRECT")}


class Runner:
    def __init__(self, ppto):
        self.ppto, self.number, self.failed = os.path.abspath(ppto), 0, 0

    def __call__(self, *args, stdin=b"", env=None, timeout=60):
        """The finished process; output and errors as bytes."""
        return subprocess.run([self.ppto, *args], input=stdin, capture_output=True, env={**CLEAN, **(env or {})},
                              timeout=timeout)

    def judge(self, name, test):
        self.number += 1
        try:
            test(self)
            print(f"ok {self.number} - {name}", flush=True)
        except (Failure, AssertionError, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
            self.failed += 1
            print(f"not ok {self.number} - {name}", flush=True)
            for line in f"{type(error).__name__}: {error}".splitlines():
                print(f"# {line}", flush=True)


def shown(result):
    def text(data):
        return data.decode("utf-8", "replace")[:1500]
    return f"exit {result.returncode}\nstdout: {text(result.stdout)}\nstderr: {text(result.stderr)}"


def check(result, code, out=(), err=()):
    expect(result.returncode == code, f"expected exit {code}\n{shown(result)}")
    for word in out:
        expect(word.encode() in result.stdout, f"no {word!r} on standard output\n{shown(result)}")
    for word in err:
        expect(word.encode() in result.stderr, f"no {word!r} on standard error\n{shown(result)}")
    if code == 0:
        expect(b"Traceback" not in result.stderr and not result.stderr.startswith(b"ppto: "), shown(result))
    elif code != 1:
        expect(result.stdout == b"", f"a failure printed\n{shown(result)}")
        expect(result.stderr.startswith(b"ppto: ") or b"usage:" in result.stderr, f"no message\n{shown(result)}")
    return result


# ---- the table ----

def read_cases(path):
    """cases.txt: a line of command with NAME=VALUE of the environment in front, then lines of what is expected:
    "= N" the exit code, "> TEXT" on standard output, "! TEXT" on standard error, "< FILE" standard input."""
    cases = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line[:2] in ("= ", "> ", "! ", "< "):
                case = cases[-1]
                if line[0] == "=":
                    case["code"] = int(line[2:])
                elif line[0] == "<":
                    case["stdin"] = line[2:]
                else:
                    case["out" if line[0] == ">" else "err"].append(line[2:])
                continue
            words = shlex.split(line)
            env = {}
            while words and re.match(r"[A-Z_]+=", words[0]):
                name, value = words.pop(0).split("=", 1)
                env[name] = value
            assert words and words[0] == "ppto", f"{path}:{number}: no ppto command"
            cases.append({"line": line, "args": words[1:], "env": env, "code": 0, "out": [], "err": [], "stdin": None})
    return cases


def run_case(case):
    def test(ppto):
        stdin = read(case["stdin"]) if case["stdin"] else b""
        check(ppto(*case["args"], stdin=stdin, env=case["env"]), case["code"], case["out"], case["err"])
    return test


# ---- what takes more than a line ----

def saves_and_reads(ppto):
    check(ppto("run", "x * 2", "x=x.npy", "-o", "out.npy"), 0)
    expect(read_npy(read("out.npy")) == ("<f4", (2, 3), [2, 4, 6, 8, 10, 12]), "wrong data")


def every_file_layout_reads_the_same(ppto):
    plain = check(ppto("run", "x", "x=x.npy"), 0).stdout
    for name in ("v2.npy", "big_endian.npy", "fortran.npy"):
        expect(check(ppto("run", "x", f"x={name}"), 0).stdout == plain, name)


def named_results(ppto):
    check(ppto("run", "program.ppto", "x=x.npy", "-o", "y=named_y.npy", "-o", "total=named_t.npy"), 0)
    expect(read_npy(read("named_y.npy"))[2] == [3, 5, 7, 9, 11, 13], "y")
    expect(read_npy(read("named_t.npy"))[1:] == ((), [42]), "total")


def only_what_is_asked(ppto):
    """w is declared, not bound, and not needed for b."""
    check(ppto("run", "two.ppto", "x=x.npy", "-o", "b=only_b.npy"), 0)
    expect(read("only_b.npy") == read("x.npy") or read_npy(read("only_b.npy"))[2] == [1, 2, 3, 4, 5, 6], "b")
    check(ppto("run", "two.ppto", "x=x.npy", "-o", "a=only_a.npy"), 2, err=["w"])
    expect(not os.path.exists("only_a.npy"), "a file appeared")


def bound_but_not_needed(ppto):
    check(ppto("run", "two.ppto", "x=x.npy", "w=y.npy", "-o", "b=only_b2.npy"), 0)


def pipe_in_and_out(ppto):
    first = check(ppto("run", "x + 1", "x=-", "-o", "-", stdin=read("x.npy")), 0)
    second = check(ppto("run", "sum(x)", "x=-", "--npy", "-", stdin=first.stdout), 0)
    expect(read_npy(second.stdout) == ("<f4", (), [27]), shown(second))


def replaces_its_own_input(ppto):
    write("self.npy", read("x.npy"))
    check(ppto("run", "x + x", "x=self.npy", "-o", "self.npy"), 0)
    expect(read_npy(read("self.npy"))[2] == [2, 4, 6, 8, 10, 12], "wrong data")


def failure_keeps_the_old_file(ppto):
    write("old.npy", b"old")
    check(ppto("run", "take(x, i)", "x=y.npy", "i=i.npy", "-o", "old.npy"), 2)
    expect(read("old.npy") == b"old", "the old file changed")
    check(ppto("run", "x", "x=short.npy", "-o", "old.npy"), 3)
    expect(read("old.npy") == b"old", "the old file changed")


def no_half_files_remain(ppto):
    os.mkdir("clean")
    check(ppto("run", "x", "x=x.npy", "-o", "clean/a.npy", "--stats-json", "clean/s.json"), 0)
    expect(sorted(os.listdir("clean")) == ["a.npy", "s.json"], os.listdir("clean"))


def folder_that_cannot_be_written(ppto):
    if os.geteuid() == 0:
        return  # root may write anywhere
    os.chmod("locked", 0o555)
    try:
        check(ppto("run", "x", "x=x.npy", "-o", "locked/new.npy"), 3)
    finally:
        os.chmod("locked", 0o755)


def same_bits_anywhere(ppto):
    text = ["run", "softmax(x @ w)", "x=f32[8,16]:random(7)", "w=f32[16,10]:normal(3)"]
    first = check(ppto(*text), 0).stdout
    for more in (["--threads", "1"], ["--threads", "3"], ["--executor", "serial"], ["--executor", "pthread"],
                 ["--device", "reference"], ["--no-optimise"], ["--simd", "baseline"]):
        expect(check(ppto(*text, *more), 0).stdout == first, more)


def random_is_keyed_by_seed_and_name(ppto):
    a = check(ppto("run", "x", "x=f32[8]:random(7)"), 0).stdout
    expect(check(ppto("run", "x", "x=f32[8]:random(7)"), 0).stdout == a, "not repeatable")
    expect(check(ppto("run", "x", "x=f32[8]:random(8)"), 0).stdout != a, "the seed")
    expect(check(ppto("run", "y", "y=f32[8]:random(7)"), 0).stdout != a, "the name")


def json_results(ppto):
    results = json.loads(check(ppto("run", "program.ppto", "x=x.npy", "--json"), 0).stdout)
    expect([r["name"] for r in results] == ["y", "total"], results)
    expect(results[0]["dtype"] == "f32" and results[0]["shape"] == [2, 3], results)
    expect(results[0]["data"] == [[3, 5, 7], [9, 11, 13]] and results[1]["data"] == 42, results)


def json_of_nan(ppto):
    results = json.loads(check(ppto("run", "x", "x=nan.npy", "--json"), 0).stdout)
    expect(results[0]["data"] == [None, None], results)


def need(value, *keys):
    for key in keys:
        expect(key in value, f"no key {key} in {value}")


def stats_keys(ppto):
    check(ppto("run", "sum(exp(x))", "x=x.npy", "--stats-json", "stats.json"), 0)
    stats = json.loads(read("stats.json"))
    expect(stats["schema"] == "ppto-stats/1", stats)
    need(stats, "kernels", "tier", "executor", "threads", "predicted_peak_bytes", "measured_peak_bytes", "copied_bytes",
         "plan_cache", "kernel_cache", "record_seconds", "plan_seconds", "compile_seconds", "run_seconds")
    need(stats["kernel_cache"], "hits", "misses", "disk_hits")
    expect(stats["plan_cache"] in ("hit", "miss"), stats)


def stats_text(ppto):
    check(ppto("run", "sum(x)", "x=x.npy", "--stats"), 0, out=["21"], err=["1 kernel, ", "peak"])
    shown = check(ppto("run", "exp(x) + 1", "x=x.npy", "--stats", "--tier", "jit"), 0).stderr
    expect((b"; 1 of 1 loop compiled, " in shown) == makes_code(ppto), shown)


def trace(ppto):
    check(ppto("run", "sum(exp(x))", "x=f32[512,512]", "--trace", "trace.json"), 0)
    events = [e for e in json.loads(read("trace.json"))["traceEvents"] if e["ph"] == "X"]
    expect(events and all(e["dur"] >= 0 and e["ts"] >= 0 for e in events), events[:3])


def bench_keys(ppto):
    args = ["bench", "exp(x) + 1", "x=f32[64,64]", "--warmup", "1", "--repeat", "3"]
    result = json.loads(check(ppto(*args, "--json"), 0).stdout)
    expect(result["schema"] == "ppto-bench/1" and result["repeats"] == 3 and result["warmup"] == 1, result)
    need(result, "median_seconds", "min_seconds", "mean_seconds", "std_seconds", "first_seconds", "compile_seconds",
         "threads", "executor", "tier", "kernels", "bytes", "gb_per_s", "flops", "gflop_per_s", "loops",
         "compiled_loops", "disk_hits")
    expect(result["bytes"] == 2 * 64 * 64 * 4, result)
    expect(0 < result["min_seconds"] <= result["median_seconds"], result)
    check(ppto(*args), 0, out=["median", "GB/s"])


def code_cache_is_told(ppto):
    def cache(folder):
        env = {"PPTO_CACHE_DIR": folder}
        return (json.loads(check(ppto("info", "--json", env=env), 0).stdout)["code_cache"],
                check(ppto("info", env=env), 0, out=["code cache  "]).stdout.decode())
    got, text = cache("")
    expect(got["folder"] is None and "PPTO_CACHE_DIR is empty" in got["why_not"] and got["why_not"] in text, got)
    got, text = cache("codes/new")
    expect(got["folder"] == "codes/new" and got["why_not"] is None and not got["exists"], got)
    expect("codes/new: made when code is kept" in text and not os.path.exists("codes"), text)
    check(ppto("run", "tanh(x) * x + 1", "x=x.npy", "--tier", "jit", env={"PPTO_CACHE_DIR": "codes/new"}), 0)
    if makes_code(ppto):
        got, text = cache("codes/new")
        expect(got["files"] == 1 and got["bytes"] > 0 and got["writable"] and "in 1 file\n" in text, (got, text))
    os.makedirs("open_to_all")
    os.chmod("open_to_all", 0o777)
    got, text = cache("open_to_all")
    expect("not private" in got["why_not"] and "none in open_to_all: not private" in text, (got, text))
    got, text = cache("x.npy")
    expect(got["why_not"] and "none in x.npy: " in text, (got, text))


def what_is_tuned_is_kept_and_used(ppto):
    env = {"PPTO_CACHE_DIR": "tuned"}

    def predicted():
        plan = json.loads(check(ppto("explain", "x + 1", "x=f32[1000]:zeros", "--json", env=env), 0).stdout)
        return plan["groups"][0]["predicted_ns"]
    usual = predicted()
    text = check(ppto("tune", env=env), 0, out=["launch_ns", "far_gb_per_s", "products", "kept in tuned/machine-"]).stdout
    expect(text.count(b"usually") == 8, text)
    (name,) = [n for n in os.listdir("tuned") if n.endswith(".costs")]
    note, mode = read("tuned/" + name), os.stat("tuned/" + name).st_mode & 0o777
    expect(mode == 0o600 and b"launch_ns" in note, (oct(mode), note))
    tuned = predicted()
    check(ppto("tune", "--simd", "baseline", env=env), 0, out=["kept in tuned/machine-"])
    expect(read("tuned/" + name) == note, "other settings have a note of their own")
    for damaged in (note[:-1], note[:20], b"", note.replace(b"wake_ns", b"woke_ns")):
        write("tuned/" + name, damaged)
        expect(predicted() == usual, (damaged, usual))
    write("tuned/" + name, note)
    os.chmod("tuned/" + name, 0o622)
    expect(predicted() == usual, "others may write there")
    launch = float(note.split(b"launch_ns ")[1].split(b"\n")[0])
    expect(tuned >= launch - 1, (tuned, launch))
    check(ppto("tune", env={"PPTO_CACHE_DIR": ""}), 0, out=["not kept: PPTO_CACHE_DIR is empty"])
    check(ppto("tune", "x"), 2)


def broken_module_is_told(ppto):
    write("modules/libppto-llvm.so", b"no module")
    env = {"PPTO_MODULE_PATH": "modules"}
    llvm = [m for m in json.loads(check(ppto("info", "--json", env=env), 0).stdout)["modules"] if m["name"] == "llvm"][0]
    expect(not llvm["available"] and llvm["path"] is None and "modules/libppto-llvm.so" in llvm["why_not"], llvm)
    args = ["run", "exp(x) + 1", "x=x.npy"]
    shown = check(ppto(*args, "--tier", "jit", env=env), 0, err=["note: tier jit: there is no machine code: modules/libppto"])
    expect(shown.stderr.count(b"\n") == 1, shown)
    check(ppto(*args, "--tier", "jit", "--log-level", "1", env=env), 0, err=["jit: there is no machine code: ", "note: tier jit"])
    for tier in ("auto", "interp"):
        expect(check(ppto(*args, "--tier", tier, env=env), 0).stderr == b"", tier)
    if makes_code(ppto):
        check(ppto("info"), 0, out=["llvm       available: /"])
        expect(check(ppto(*args, "--tier", "jit"), 0).stderr == b"", args)


def makes_code(ppto):
    modules = json.loads(check(ppto("info", "--json"), 0).stdout)["modules"]
    return any(m["name"] == "llvm" and m["available"] for m in modules) and os.uname().machine == "x86_64"


def bench_waits_for_machine_code(ppto):
    args = ["bench", "tanh(x)*x + exp(-x)*sqrt(x)", "x=f32[64,64]", "--warmup", "0", "--repeat", "1", "--tier", "auto"]
    result = json.loads(check(ppto(*args, "--json"), 0).stdout)
    expect(result["tier"] == ("jit" if makes_code(ppto) else "interp"), result)
    expect(result["compiled_loops"] == result["loops"], result)
    check(ppto(*args), 0, out=[f"tier {result['tier']}, "] + [f"; {result['loops']} of 1 loop compiled"] * result["loops"])


def explain_keys(ppto):
    for size, known in (("8", True), ("N", False)):
        plan = json.loads(check(ppto("explain", "softmax(x @ w)", f"x=f32[{size},64]", "w=f32[64,10]", "--json"), 0).stdout)
        expect(plan["schema"] == "ppto-explain/1", plan)
        need(plan, "recorded_ops", "kernels", "groups", "not_fused", "predicted_peak_bytes", "lower_bound_bytes",
             "serial_bound_bytes", "copies")
        expect(len(plan["groups"]) == plan["kernels"] > 0, plan)
        for group in plan["groups"]:
            need(group, "id", "kind", "ops", "reads_bytes", "writes_bytes", "flops", "predicted_ns")
            expect(group["predicted_ns"] > 0 if known else group["predicted_ns"] is None, group)
            expect(isinstance(group["writes_bytes"], int) or not known, group)
        for pair in plan["not_fused"]:
            need(pair, "producer", "consumer", "code", "text")


def info_keys(ppto):
    info = json.loads(check(ppto("info", "--json"), 0).stdout)
    expect(info["schema"] == "ppto-info/1", info)
    need(info, "version", "threads", "executors", "devices", "simd", "caches", "numa_nodes", "nodes", "binding", "placement",
         "limits", "memory", "io", "modules", "code_cache")
    expect(info["nodes"][0]["bytes"] > 0 and info["nodes"][0]["cpu_list"], info["nodes"])
    expect(sum(node["workers"] for node in info["nodes"]) == info["threads"], info["nodes"])
    need(info["memory"], "ram_bytes", "cgroup_bytes", "limit_bytes")
    limited = json.loads(check(ppto("info", "--json", "--memory-limit", "64M"), 0).stdout)
    expect(limited["memory"]["limit_bytes"] == 64 << 20, limited["memory"])
    for node in info["nodes"]:
        need(node, "number", "cpus", "cpu_list", "bytes", "workers")
    need(info["binding"], "threads", "memory")
    need(info["limits"], "cgroup", "affinity", "online", "cpuset_cpus", "cpuset_mems")
    need(info["io"], "engine", "threads", "uv_threadpool_size", "piece_bytes", "in_flight_pieces", "in_flight_bytes")
    for device in info["devices"]:
        need(device, "name", "available", "why_not")


def ops_keys(ppto):
    ops = json.loads(check(ppto("ops", "--json"), 0).stdout)
    expect(len(ops) > 100, len(ops))
    for op in ops:
        need(op, "name", "signature", "doc", "shape_rule", "dtypes", "gradient", "devices")
    some = json.loads(check(ppto("ops", "soft*", "--json"), 0).stdout)
    expect(some and all(op["name"].startswith("soft") for op in some), some)


def compare_json(ppto):
    same = json.loads(check(ppto("compare", "x.npy", "x.npy", "--json"), 0).stdout)
    expect(same["equal"] is True and same["different"] == 0, same)
    other = json.loads(check(ppto("compare", "x.npy", "near.npy", "--json"), 1).stdout)
    expect(other["first"]["index"] == [1, 2] and other["different"] == 1, other)


def fewer_threads_than_asked_for_are_told(ppto):
    for verb in ("run", "bench", "explain"):
        check(ppto(verb, "sum(x)", "x=f32[4]:ones", "--threads", "999"), 0, err=["note: --threads 999: the machine allows "])
    for quiet in (["--threads", "1"], ["--threads", "2", "--executor", "serial"]):
        expect(check(ppto("run", "1 + 1", *quiet), 0).stderr == b"", quiet)


def threads_do_not_print(ppto):
    for verb in (["run", "1 + 1"], ["ops"], ["info"], ["explain", "1 + x", "x=f32[4]"]):
        expect(check(ppto(*verb), 0).stderr == b"", verb)


def every_help(ppto):
    check(ppto("--help"), 0, out=["usage: ppto", "exit codes"])
    for verb in ("run", "explain", "bench", "ops", "show-op", "info", "compare", "selfcheck", "tune", "memcheck"):
        for args in ([verb, "--help"], [verb, "-h"], ["help", verb]):
            check(ppto(*args), 0, out=[f"usage: ppto {verb}", "options:"])


def keeps_mode_and_links(ppto):
    write("mode.npy", b"old")
    os.chmod("mode.npy", 0o640)
    os.symlink("mode.npy", "link.npy")
    check(ppto("run", "x", "x=x.npy", "-o", "link.npy"), 0)
    expect(os.path.islink("link.npy") and os.stat("mode.npy").st_mode & 0o777 == 0o640, "link or mode")


def colour(ppto):
    plain = check(ppto("run", "x", "x=missing.npy"), 3).stderr
    expect(b"\033" not in plain, plain)
    for args, env in ((["--color", "always"], {}), ([], {"CLICOLOR_FORCE": "1"})):
        expect(b"\033[" in ppto("run", "x", "x=missing.npy", *args, env=env).stderr, (args, env))
    for args, env in ((["--color", "never"], {"CLICOLOR_FORCE": "1"}), ([], {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"})):
        expect(b"\033" not in ppto("run", "x", "x=missing.npy", *args, env=env).stderr, (args, env))


def names_that_are_not_utf8(ppto):
    name = b"caf\xe9.npy"
    result = subprocess.run([ppto.ppto.encode(), b"run", b"sum(x)", b"x=" + name], capture_output=True, env=CLEAN)
    check(result, 0, out=["21"])


def long_text(ppto):
    write("huge.ppto", "x + 1\n" + "#" * (16 << 20))
    check(ppto("run", "huge.ppto", "x=1"), 4)


def deep_text(ppto):
    check(ppto("run", "(" * 990 + "1" + ")" * 990), 0, out=["1"])
    check(ppto("run", "(" * 1100 + "1" + ")" * 1100), 4)


def posix_order(ppto):
    check(ppto("run", "--threads", "1", "x + 1", "--executor", "serial", "x=1", env={"POSIXLY_CORRECT": "1"}), 0, out=["2"])


SPECIAL = [saves_and_reads, every_file_layout_reads_the_same, named_results, only_what_is_asked,
           bound_but_not_needed, pipe_in_and_out, replaces_its_own_input, failure_keeps_the_old_file,
           no_half_files_remain, folder_that_cannot_be_written, same_bits_anywhere,
           random_is_keyed_by_seed_and_name, json_results, json_of_nan, stats_keys, stats_text, trace, bench_keys,
           bench_waits_for_machine_code, explain_keys, info_keys, code_cache_is_told, what_is_tuned_is_kept_and_used, broken_module_is_told, ops_keys, compare_json, fewer_threads_than_asked_for_are_told,
           threads_do_not_print, every_help, keeps_mode_and_links,
           colour, names_that_are_not_utf8, long_text, deep_text, posix_order]


def named(tests):
    return [(test.__name__.replace("_", " "), test) for test in tests]


def all_tests():
    tests = [(f"{case['line']} = {case['code']}".replace("#", "\\#"), run_case(case))
             for case in read_cases(os.path.join(HERE, "cases.txt"))]
    tests += named(SPECIAL)
    return tests


def run_tests(arguments, tests):
    """Judges (name, test) pairs in a folder with the files; the exit code."""
    if len(arguments) < 2:
        print(sys.modules["__main__"].__doc__, file=sys.stderr)
        return 2
    word = arguments[2] if len(arguments) > 2 else ""
    tests = [(name, test) for name, test in tests if word in name]
    ppto, before = Runner(arguments[1]), os.getcwd()
    folder = tempfile.mkdtemp(prefix="ppto-cli-")
    print(f"1..{len(tests)}", flush=True)
    try:
        os.chdir(folder)
        make_files()
        for name, test in tests:
            ppto.judge(name, test)
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if ppto.failed else 0


if __name__ == "__main__":
    sys.exit(run_tests(sys.argv, all_tests()))
