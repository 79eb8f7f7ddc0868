#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What memcheck costs, in instructions: the programs of perf/micro/memcheck_cost.c under callgrind.

usage: memcheck_cost.py [--program PATH] [NAME...]

Counts do not depend on what else the machine does. A program is counted with few runs and with more, and the
difference is that of the runs alone. One line a program: instructions of a run at level 0, and what levels 1 and 2 add."""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = {"map": 10, "rows": 6, "layers": 20, "tiny": 200, "fresh": 20}


def count(program, name, level, runs):
    """Instructions of the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", program, name, str(level), str(runs)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PPTO_SIMD": "avx2"})
        found = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or not found:
            sys.exit(done.stderr)
        return int(found.group(1))


def per_run(program, name, level):
    few, more = RUNS[name], 3 * RUNS[name]
    return (count(program, name, level, more) - count(program, name, level, few)) / (more - few)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=os.path.join(HERE, "../build/perf/memcheck_cost"))
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    print("| program | instructions of a run | level 1 | level 2 |\n|---|---:|---:|---:|")
    for name in options.names or RUNS:
        off, one, two = (per_run(options.program, name, level) for level in (0, 1, 2))
        print(f"| {name} | {off:,.0f} | +{100 * (one / off - 1):.2f} % | +{100 * (two / off - 1):.2f} % |", flush=True)


if __name__ == "__main__":
    main()
