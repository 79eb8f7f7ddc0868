#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What small workloads cost, beside perf/baseline.json: a guard that no clock decides.

    guard.py --program build/perf/counted [--update] [NAME...]

Counted are, with one thread and the block interpreter (PPTO_SIMD=avx2, which callgrind knows):

    first     instructions from the text to the first result, in a warm process
    run       instructions of a run of the compiled program
    kernels, bytes (that they read and write by plan), peak (bytes planned)

A count may exceed its baseline by what leaves 95 % of it (compilers of one kind differ by less); kernels, bytes and peak
may not exceed it at all. Exit status 1 when one does; 77 (skipped) where there is no callgrind or no AVX2, and where the
compiler or the caches, by which plans choose their tiles, are not those of the baseline. --update writes the counts of today
into the baseline: with a commit that says why.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BASELINE = Path(__file__).with_name("baseline.json")
RUNS, LEAST, SKIPPED = 4, 0.95, 77
COUNTED, PLANNED = ("first", "run"), ("kernels", "bytes", "peak")


def can_count():
    """Whether callgrind and AVX2 are there."""
    flags = Path("/proc/cpuinfo")
    return shutil.which("valgrind") and flags.exists() and " avx2" in flags.read_text()


def machine():
    """What counts depend on beside the source: the compiler of the path, the first two caches of data."""
    first = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=False).stdout.strip()
    caches = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")
    sizes = sorted((cache / "level").read_text().strip() + ":" + (cache / "size").read_text().strip() for cache in caches
                   if (cache / "type").read_text().strip() != "Instruction")
    return f"gcc {first.split('.')[0]}, caches {' '.join(size for size in sizes if size[0] in '12')}"


def explanations(text):
    """The JSON objects that follow each other in a text."""
    decoder, at, found = json.JSONDecoder(), 0, []
    while at < len(text.rstrip()):
        value, end = decoder.raw_decode(text, at)
        found.append(value)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found


def count(program, workloads):
    """{name: counts} of all workloads by one process."""
    words = []
    for work in workloads:
        inputs = [f"{name}={spec}" for name, spec in work["inputs"].items()]
        words += [*(["--"] if words else []), work["program"], *inputs]
    env = {"PATH": os.environ["PATH"], "PPTO_SIMD": "avx2", "PPTO_CACHE_DIR": ""}   # and no MALLOC_PERTURB_ of meson
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["valgrind", "--tool=callgrind", "--dump-before=counted_mark", f"--callgrind-out-file={folder}/out",
                               program, str(RUNS), *words], capture_output=True, text=True, env=env, check=False)
        if done.returncode != 0:
            sys.exit(f"guard.py: {done.stderr}")
        parts = [int(re.search(r"^(?:totals|summary): (\d+)", (Path(folder) / f"out.{i + 1}").read_text(), re.M)[1])
                 for i in range(3 * len(workloads))]
    counts = {}
    for i, (work, plan) in enumerate(zip(workloads, explanations(done.stdout))):
        moved = sum(group["reads_bytes"] + group["writes_bytes"] for group in plan["groups"])
        counts[work["name"]] = {"first": parts[3*i + 1], "run": parts[3*i + 2] // RUNS, "kernels": plan["kernels"],
                                "bytes": moved, "peak": plan["predicted_peak_bytes"]}
    return counts


def judge(work, now):
    """(what is worse, what is better), each a list of words."""
    worse, better = [], []
    for key in (*COUNTED, *PLANNED):
        old, new = work[key], now[key]
        may = old / LEAST if key in COUNTED else old
        if new > may:
            worse.append(f"{key} {old:,} -> {new:,}")
        elif new < (old * LEAST if key in COUNTED else old):
            better.append(f"{key} {old:,} -> {new:,}")
    return worse, better


def update(workloads, counts, where):
    """One workload a line of figures, so that a change can be read."""
    for work in workloads:
        work.update(counts.get(work["name"], {}))
    lines = ",\n".join(" " + json.dumps(work) for work in workloads)
    BASELINE.write_text(f"{{\"machine\": {json.dumps(where)}, \"workloads\": [\n{lines}\n]}}\n")


def report(workloads, counts):
    """Prints the table; the number of workloads that got worse."""
    bad = 0
    print(f"{'workload':<20} {'first':>12} {'run':>12} {'kernels':>7} {'bytes':>12} {'peak':>12}")
    for work in workloads:
        now = counts[work["name"]]
        print(f"{work['name']:<20} {now['first']:>12,} {now['run']:>12,} {now['kernels']:>7} {now['bytes']:>12,} {now['peak']:>12,}")
        worse, better = judge(work, now)
        bad += bool(worse)
        for words in worse:
            print(f"    WORSE: {words}")
        for words in better:
            print(f"    better: {words}; perf/guard.py --update keeps it")
    print(f"{len(counts) - bad} of {len(counts)} within {LEAST:.0%} of the baseline")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(Path(__file__).parents[1] / "build/perf/counted"))
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if not can_count():
        print("guard.py: skipped: needs valgrind and AVX2")
        return SKIPPED
    baseline, where = json.loads(BASELINE.read_text()), machine()
    workloads = baseline["workloads"]
    if where != baseline["machine"] and not options.update:
        print(f"guard.py: skipped: the baseline was counted with {baseline['machine']}, here is {where}")
        return SKIPPED
    chosen = [work for work in workloads if not options.names or work["name"] in options.names]
    counts = count(options.program, chosen)
    if options.update:
        update(workloads, counts, where)
    return 1 if report(chosen, counts) else 0


if __name__ == "__main__":
    sys.exit(main())
