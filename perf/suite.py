#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The project's own benchmarks behind one command: JSON lines, for compare.py.

    suite.py --build FOLDER [--json FILE] [GROUP...]

Groups: `micro` (machine code beside blocks and a loop by hand; the cost of steps), `latency` (what the library costs apart
from the elements), `scaling` (a second thread beside an FMA probe) and `workloads` (workloads.toml beside NumPy, interleaved).
Without a name all of them run, one after the other, as nothing else should run meanwhile.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GROUPS = ["micro", "latency", "scaling", "workloads"]


def programs(group, build):
    """The command lines of a group of programs that print JSON lines."""
    perf, module = build / "perf", build / "libppto-llvm.so"
    if group == "micro":
        code = [[perf / "machine_code", module, elements] for elements in ("4096", "131072", "1048576")]
        return (code if module.exists() and (perf / "machine_code").exists() else []) + [[perf / "nodes"]]
    return [[perf / group]]


def run_program(command, group, write):
    """Passes its lines on with the group; False when it failed."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    for text in done.stdout.splitlines():
        if text.startswith("{"):
            write(json.dumps({"group": group, **json.loads(text)}))
    if done.returncode != 0:
        print(f"suite.py: {command[0]}: {done.stderr.strip() or done.returncode}", file=sys.stderr)
    return done.returncode == 0


def run_workloads(build, file, more):
    command = [sys.executable, HERE / "peers.py", "--ppto", build / "ppto", "--peers", "numpy", "--append", "--json", file]
    return subprocess.run([*map(str, command), *more], check=False).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    options, more = parser.parse_known_args()
    if unknown := [group for group in options.groups if group not in GROUPS]:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    file = options.json or options.build / "bench/suite.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")

    def write(line):
        print(line, flush=True)
        with file.open("a") as out:
            out.write(line + "\n")
    good = True
    for group in options.groups or GROUPS:
        if group == "workloads":
            good = run_workloads(options.build, file, more) and good
        else:
            good = all([run_program(command, group, write) for command in programs(group, options.build)]) and good
    print(f"suite.py: written to {file}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
