#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time of shipped operators beside copies of them under other names.

    names.py --ppto build/ppto [--threads N] [--rounds N]

No part of ppto knows an operator by its name, so a copy must be as fast. The copy is the whole library with a prefix
before each of its names. The two take turns; the least time of each counts. tests/run/test_generality.c asserts that kernels and bits are the same.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CALLS = ["softmax(x)", "logsumexp(x, axis=-1)", "layer_norm(x, w, b)", "var(x, axis=-1)", "gelu(x)", "exp(x)"]
INPUTS = {"x": "f32[4096,1024]:normal(1)", "w": "f32[1024]:normal(2)", "b": "f32[1024]:normal(3)"}


def renamed_library(folder):
    """The text of all shipped definitions, each name with the prefix my_ where it is defined and called."""
    text = "".join((folder / name).read_text() for name in ("functions.ppto", "library.ppto"))
    lines = [line for line in text.splitlines() if not line.startswith(("#", "alias "))]
    text = "\n".join(lines) + "\n"
    names = set(re.findall(r"^(?:op|fold(?: ordered)?) (\w+)\(", text, re.MULTILINE))

    def rename(match):
        part_of_fold = match[2] == "step" and match[1] != "op "
        return match[0] if match[2] not in names or part_of_fold else f"{match[1]}my_{match[2]}("

    return re.sub(r"(op |(?<![\w.]))(\w+)\(", rename, text)


def least(ppto, text, threads, define):
    names = [n for n in INPUTS if f"{n}," in text or f"{n})" in text]
    command = [ppto, "bench", text, *(f"{n}={INPUTS[n]}" for n in names), "--json", "--threads", str(threads)]
    run = subprocess.run(command + define, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"names.py: {text}: {run.stderr.strip()}")
    figures = json.loads(run.stdout)
    return figures["min_seconds"], figures["kernels"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ppto", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'operator':<24} {'kernels':>7} {'shipped':>10} {'copy':>10} {'ratio':>6}")
    with tempfile.NamedTemporaryFile("w", suffix=".ppto") as file:
        file.write(renamed_library(Path(__file__).parents[1] / "src/ops"))
        file.flush()
        for call in CALLS:
            pairs = [(least(options.ppto, call, options.threads, []),
                      least(options.ppto, f"my_{call}", options.threads, ["--define", file.name]))
                     for _ in range(options.rounds)]
            kernels = "/".join(str(k) for k in sorted({k for pair in pairs for _, k in pair}))
            a, b = (1e3 * min(pair[i][0] for pair in pairs) for i in (0, 1))
            print(f"{call:<24} {kernels:>7} {a:>7.3f} ms {b:>7.3f} ms {b / a:>6.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
