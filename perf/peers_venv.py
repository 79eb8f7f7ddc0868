#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python environment with the peers, in the build folder.

    peers_venv.py FOLDER [PEER,...]          makes or completes it and prints the peers that can be timed there

The packages come from where pip of this machine gets them. What cannot be installed, or does not start, is told on
standard error and left out: a run beside fewer peers is better than none. An environment that is complete is not touched
again, so only the first run needs a network. NumPy and SciPy are always there: they make the inputs and the reference.
"""

import subprocess
import sys
import venv
from pathlib import Path

ALWAYS = ["numpy", "scipy", "threadpoolctl"]
PACKAGES = {"numpy": [], "torch": ["torch"], "torch-compile": ["torch", "setuptools"], "jax": ["jax"],
            "numexpr": ["numexpr"], "numba": ["numba"], "mlx": ["mlx[cpu]"], "dask": ["dask[array]"]}
STARTS = {"torch-compile": "import torch._inductor", "mlx": "import mlx.core", "dask": "import dask.array"}


def starts(python, statement):
    return subprocess.run([python, "-c", statement], capture_output=True, check=False).returncode == 0


def install(python, packages):
    """Why it failed, or nothing."""
    done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
                          stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]


def complete(folder, peers):
    """The peers that start there."""
    python = str(folder / "bin/python")
    if not Path(python).exists():
        venv.create(folder, with_pip=True)
    if not starts(python, "import numpy, scipy, threadpoolctl") and (why := install(python, ALWAYS)):
        sys.exit(f"peers_venv.py: NumPy cannot be installed: {why}")
    there = []
    for peer in peers:
        statement, why = STARTS.get(peer, f"import {peer}"), ""
        if not starts(python, statement):
            print(f"installing {' '.join(PACKAGES[peer])} for {peer}", file=sys.stderr, flush=True)
            why = install(python, PACKAGES[peer])
        if not why and starts(python, statement):
            there.append(peer)
        else:
            print(f"left out: {peer}: {why or 'does not start'}", file=sys.stderr, flush=True)
    return there


def main():
    folder = Path(sys.argv[1])
    peers = sys.argv[2].split(",") if len(sys.argv) > 2 and sys.argv[2] else list(PACKAGES)
    unknown = [peer for peer in peers if peer not in PACKAGES]
    if unknown:
        sys.exit(f"peers_venv.py: no peer {', '.join(unknown)}; there are {', '.join(PACKAGES)}")
    print(",".join(complete(folder, peers)))


if __name__ == "__main__":
    main()
