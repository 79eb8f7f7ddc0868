#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machine code is kept on disk: of a second process every loop comes from there, with the same result; damage, a
folder that is not ours alone and processes that start at once only cost the time to compile.
Usage: second_run.py PPTO [--in FOLDER]"""
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


def check_at_once(ppto, work, first):
    """Processes that want the same code of an empty folder at the same time."""
    for round_number in range(3):
        folder = os.path.join(work, f"cold{round_number}")
        env = dict(os.environ, PPTO_TIER="jit", PPTO_CACHE_DIR=folder)
        started = []
        for k in range(8):
            out = os.path.join(work, f"at-once{k}.npy")
            command = [ppto, "run", TEXTS[k % 2], "x=f32[70,300]:random(3)", "-o", out]
            started.append((k % 2, out, subprocess.Popen(command, env=env)))
        for text, out, process in started:
            assert process.wait(timeout=60) == 0
            with open(out, "rb") as f:
                assert f.read() == first[text], TEXTS[text]
        assert check(ppto, folder, work, None) == first
        assert check(ppto, folder, work, True) == first


def check_no_exec(ppto, work):
    """A folder of a file system that nothing may be executed from does as well. Where one can be mounted."""
    folder = os.path.join(work, "noexec")
    os.mkdir(folder, 0o700)
    script = 'mount -t tmpfs -o noexec,mode=700 none "$1" 2>/dev/null || exit 77; exec "$2" "$3" "$4" --in "$1"'
    try:
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", folder, sys.executable, __file__, ppto],
                              stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError:
        return
    refused = done.returncode == 77 or done.stderr.startswith("unshare:")
    assert refused or done.returncode == 0, done.stderr


def check_in(ppto, folder):
    with tempfile.TemporaryDirectory() as work:
        first = check(ppto, folder, work, False)
        assert check(ppto, folder, work, True) == first


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
        check_at_once(ppto, work, first)
        check_no_exec(ppto, work)


if sys.argv[2:3] == ["--in"]:
    check_in(sys.argv[1], sys.argv[3])
else:
    main(sys.argv[1])
