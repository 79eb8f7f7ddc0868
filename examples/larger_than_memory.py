# SPDX-License-Identifier: Apache-2.0
"""Runs larger_than_memory.ppto over a table of twice its memory limit, and once with all the memory it wants:
both give the same files.

usage: larger_than_memory.py PPTO PROGRAM"""

import filecmp
import os
import subprocess
import sys
import tempfile

ppto, program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def run(*arguments):
    subprocess.run([ppto, "run", *arguments], check=True)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    run("x", "x=f32[65536,64]:normal(1)", "-o", "big.npy")  # 16 MiB
    for name, limit in (("limited", ["--memory-limit", "8M"]), ("free", [])):
        run(program, "x=big.npy", "-o", f"scaled={name}_scaled.npy", "-o", f"most={name}_most.npy", *limit)
    same = all(filecmp.cmp(f"limited_{part}.npy", f"free_{part}.npy", shallow=False) for part in ("scaled", "most"))
    sys.exit(0 if same else "the two runs differ")
