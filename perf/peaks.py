#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak memory of the graphs in perf/graphs, beside the bound that no layout of their buffers beats.

    peaks.py --ppto build/ppto [--threads N] [--json] [FILE.ppto...]

Every graph runs on made-up inputs. What counts is in docs/memory.md: loaded inputs, results, the buffers in between
and the scratch of all workers. Exit status 1 when a measured peak is not the predicted one, or exceeds its bound by
more than a twentieth. tests/run/test_memory.c asserts the same.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

DECLARATION = re.compile(r"(\w+): (\w+)\[([\d, ]*)\]")
WORST = 1.05


def bindings(text):
    """x=f32[4,5]:uniform(-1,1) for every `input x: f32[4, 5]`."""
    found = []
    for line in text.splitlines():
        if line.startswith("input "):
            found += [f"{n}={d}[{s.replace(' ', '')}]:uniform(-1,1)" for n, d, s in DECLARATION.findall(line)]
    return found


def measure(ppto, path, threads):
    command = [ppto, "bench", str(path), *bindings(path.read_text()), "--json", "--repeat", "2", "--warmup", "1"]
    run = subprocess.run(command + ["--threads", str(threads)], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"peaks.py: {path}: {run.stderr.strip()}")
    figures = json.loads(run.stdout)
    keys = ("kernels", "predicted_peak_bytes", "measured_peak_bytes", "lower_bound_bytes")
    row = {"graph": path.stem, **{key: figures[key] for key in keys}}
    row["of_bound"] = row["measured_peak_bytes"] / row["lower_bound_bytes"]
    row["good"] = row["predicted_peak_bytes"] == row["measured_peak_bytes"] and row["of_bound"] <= WORST
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ppto", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    files = options.files or sorted(Path(__file__).with_name("graphs").glob("*.ppto"))
    rows = [measure(options.ppto, path, options.threads) for path in files]
    if options.json:
        for row in rows:
            print(json.dumps(row))
    else:
        print(f"{'graph':<18} {'kernels':>7} {'predicted':>12} {'measured':>12} {'lower bound':>12} {'ratio':>7}")
        for row in rows:
            print(f"{row['graph']:<18} {row['kernels']:>7} {row['predicted_peak_bytes']:>12,} "
                  f"{row['measured_peak_bytes']:>12,} {row['lower_bound_bytes']:>12,} {row['of_bound']:>7.4f}"
                  f"{'' if row['good'] else '  <-'}")
        print(f"{sum(row['good'] for row in rows)} of {len(rows)} as predicted and within {WORST} of the bound")
    return 0 if all(row["good"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
