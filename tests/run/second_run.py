#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machine code is kept on disk: of a second process every loop comes from there, with the same result; damage and
a folder that is not ours alone only cost the time to compile. Usage: second_run.py PPTO"""
import glob
import json
import os
import subprocess
import sys
import tempfile

TEXTS = ["exp(x) * x + 1", "softmax(x * 2 - 1)", "sum(tanh(x) * x, axis=0)", "where(x > 0.5, sqrt(x), x * x * 3)"]


def run(ppto, text, folder, out):
    env = dict(os.environ, PPTO_TIER="jit", PPTO_CACHE_DIR=folder)
    stats = out + ".json"
    subprocess.run([ppto, "run", text, "x=f32[70,300]:random(3)", "-o", out, "--stats-json", stats], check=True, env=env)
    with open(stats) as f, open(out, "rb") as r:
        return json.load(f), r.read()


def check(ppto, folder, work, hits):
    results = []
    for i, text in enumerate(TEXTS):
        stats, result = run(ppto, text, folder, os.path.join(work, f"{i}.npy"))
        assert stats["tier"] == "jit" and stats["loops"] == stats["compiled_loops"] > 0, (text, stats)
        found = stats["kernel_cache"]["disk_hits"]
        assert hits is None or found == (stats["loops"] if hits else 0), (text, hits, stats)
        results.append(result)
    return results


def check_pieces(ppto, folder, work):
    """A run by pieces tells of its code, too."""
    big, out, stats_file = (os.path.join(work, name) for name in ("big.npy", "out.npy", "stats.json"))
    subprocess.run([ppto, "run", "x", "x=f32[2048,1024]:random(3)", "-o", big], check=True)
    env = dict(os.environ, PPTO_TIER="jit", PPTO_CACHE_DIR=folder)
    for second in (False, True):
        subprocess.run([ppto, "run", "exp(x) * x - 3", f"x={big}", "-o", out, "--memory-limit", "4M", "--stats-json", stats_file],
                       check=True, env=env)
        with open(stats_file) as f:
            stats = json.load(f)
        assert stats["pieces"] > 1 and stats["tier"] == "jit", stats
        assert stats["compiled_loops"] == stats["loops"] > 0, stats
        assert (stats["kernel_cache"]["disk_hits"] > 0) == second and stats["compile_seconds"] > 0, (second, stats)


def damage(folder):
    files = [f for f in glob.glob(os.path.join(folder, "**"), recursive=True) if os.path.isfile(f)]
    assert files
    for i, name in enumerate(files):
        with open(name, "r+b") as f:
            data = bytearray(f.read())
            if i % 2:
                f.truncate(len(data) // 2)
            else:
                data[-1] ^= 1
                f.seek(0)
                f.write(data)


def main(ppto):
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "cache")
        first = check(ppto, folder, work, False)
        assert check(ppto, folder, work, True) == first
        check_pieces(ppto, folder, work)
        damage(folder)
        assert check(ppto, folder, work, False) == first
        assert check(ppto, folder, work, True) == first
        os.chmod(folder, 0o777)
        assert check(ppto, folder, work, False) == first


main(sys.argv[1])
