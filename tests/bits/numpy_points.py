#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy's published accuracy points (umath-validation-set-*.csv, shipped with python3-numpy) against ppto.

    numpy_points.py PPTO

Every point is a correctly rounded value; the distance in units of the last place must stay within docs/functions.md.
"""
import csv
import glob
import os
import struct
import subprocess
import sys
import tempfile

BOUND = {"exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log1p": 1, "sin": 1, "cos": 1, "tanh": 1, "log2": 1.2}
NAMES = {"arccos": "acos", "arcsin": "asin", "arctan": "atan", "arccosh": "acosh", "arcsinh": "asinh",
         "arctanh": "atanh", "exp2": "exp2"}


def ordered(bits, width):
    """Integers in the order of the floats, so that differences count representable steps."""
    sign = 1 << (width - 1)
    return -(bits & (sign - 1)) if bits & sign else bits


def read_points(path):
    points = {"f32": [], "f64": []}
    with open(path, newline="") as f:
        for row in csv.reader(line for line in f if not line.startswith("#")):
            if len(row) < 3 or row[0] not in ("np.float32", "np.float64"):
                continue
            points["f32" if row[0] == "np.float32" else "f64"].append((int(row[1], 16), int(row[2], 16)))
    return points


def main():
    try:
        import numpy as np
    except ImportError:
        print("1..0 # SKIP NumPy is absent")
        return 0
    ppto = sys.argv[1]
    folder = os.path.join(os.path.dirname(np.__file__), "core", "tests", "data")
    files = sorted(glob.glob(os.path.join(folder, "umath-validation-set-*.csv")))
    if not files:
        print("1..0 # SKIP NumPy ships no accuracy points here")
        return 0
    number, failed = 0, 0
    with tempfile.TemporaryDirectory() as temp:
        for path in files:
            function = os.path.basename(path)[len("umath-validation-set-"):-len(".csv")]
            name = NAMES.get(function, function)
            for dtype, points in read_points(path).items():
                if not points:
                    continue
                width = 32 if dtype == "f32" else 64
                kind, real = (np.uint32, np.float32) if width == 32 else (np.uint64, np.float64)
                x = np.array([p[0] for p in points], kind).view(real)
                np.save(os.path.join(temp, "x.npy"), x)
                run = subprocess.run([ppto, "run", f"{name}(x)", f"x={temp}/x.npy", "-o", f"{temp}/y.npy"],
                                     capture_output=True, text=True)
                number += 1
                if run.returncode:
                    failed += 1
                    print(f"not ok {number} - {name} {dtype}: {run.stderr.strip()}")
                    continue
                got = np.load(os.path.join(temp, "y.npy")).view(kind)
                worst, where = 0, None
                for (bits, want), have in zip(points, got.tolist()):
                    w = struct.unpack("<f" if width == 32 else "<d", want.to_bytes(width // 8, "little"))[0]
                    h = struct.unpack("<f" if width == 32 else "<d", have.to_bytes(width // 8, "little"))[0]
                    if w != w or h != h:
                        distance = 0 if w != w and h != h else 10 ** 9
                    else:
                        distance = abs(ordered(want, width) - ordered(have, width))
                    if distance > worst:
                        worst, where = distance, bits
                # a value within b units of the exact one is at most floor(b + 1/2) steps from the rounded one
                bound = int(BOUND.get(name, 2) + 0.5)
                if worst > bound:
                    failed += 1
                    print(f"not ok {number} - {name} {dtype}: {worst} steps at {where:#x}, allowed {bound}")
                else:
                    print(f"ok {number} - {name} {dtype}: {len(points)} points, at most {worst} steps")
    print(f"1..{number}")
    return 0


sys.exit(main())
