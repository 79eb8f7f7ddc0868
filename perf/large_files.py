#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chains over a file larger than the memory they may use, beside dd.

    large_files.py --ppto build/ppto [--gb 10] [--memory-limit 256M] [--pairs 3] [--warm] [--folder DIR]
                   [--peers numpy,dask,numexpr] [CHAIN...]

Every pair is dd, which reads the file (and writes one of the size of the result, for chains with a large result), then
ppto; before each the file is dropped from the page cache (--warm: read into it), and the clock runs until what was
written is on the disk. The ratio of a chain is the median over the pairs. RssAnon is the highest that was seen of the
process, looked at every few milliseconds. All files are deleted at the end, whatever happens. When the disk has no
room for two files of the size, a smaller one is taken, and the first line says so. --peers runs, in every pair, also
what one would write by hand (large_files_peers.py: NumPy over a mapped file block by block, dask.array, numexpr); these
have no memory limit. Exit status 1 when a chain takes more than 1.15 times the time of dd, or more than a quarter over
its memory limit.
"""

import argparse
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COLUMNS, MOST_TIME, MOST_MEMORY = 1024, 1.15, 1.25
CHAINS = {  # text, and whether the result is as large as the file
    "mean": ("mean(x, axis=0)", False),
    "std": ("std(x, axis=0)", False),
    "softmax": ("softmax(x)", True),
    "chain6": ("exp(-abs(sin(x) * 2 + 1)) / 3", True),
}
PEERS = {name: ("numpy", "dask") for name in CHAINS} | {"chain6": ("numpy", "dask", "numexpr")}
PEER_TEXTS = Path(__file__).with_name("large_files_peers.py")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def write_npy(path, rows):
    """f32[rows, COLUMNS] in [0, 1), of one random block again and again."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {COLUMNS}), }}"
    head = head.ljust(128 - 10 - 1) + "\n"
    # random mantissas under exponents of 0.5 to 2 make floats without NumPy
    block = bytearray(os.urandom(4 * COLUMNS * 1024))
    block[3::4] = bytes(63 for _ in range(len(block) // 4))
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        for first in range(0, rows, 1024):
            file.write(memoryview(block)[:4 * COLUMNS * min(1024, rows - first)])
        file.flush()
        os.fsync(file.fileno())


def settle(path, warm):
    """Everything else is written; the file is out of the page cache, or in it."""
    os.sync()
    with open(path, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while warm and file.read(1 << 24):
            pass


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            return next((1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon")), 0)
    except OSError:
        return 0


def measure(command, written):
    """(seconds, highest RssAnon) of the command; written: the file it makes, or None."""
    start, most = time.monotonic(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.004)
    if process.returncode != 0:
        sys.exit(f"large_files.py: {command}: exit {process.returncode}")
    if written:
        with open(written, "rb") as file:
            os.fsync(file.fileno())
    return time.monotonic() - start, most


def commands(options, name, source, result):
    """{who: command}: dd, ppto and the peers that have a text for the chain."""
    text, large = CHAINS[name]
    who = {"dd": ["dd", f"if={source}", f"of={result if large else '/dev/null'}", "bs=4M", "status=none"],
           "ppto": [options.ppto, "run", text, f"x={source}", "-o", result, "--memory-limit", options.memory_limit]}
    for peer in options.peers:
        if peer in PEERS[name]:
            who[peer] = [sys.executable, str(PEER_TEXTS), peer, name, source, result]
    return who


def run_chain(options, name, source, result, limit):
    runs, large = {}, CHAINS[name][1]
    for _ in range(options.pairs):
        for who, command in commands(options, name, source, result).items():
            settle(source, options.warm)
            if os.path.exists(result):
                os.remove(result)
            runs.setdefault(who, []).append(measure(command, result if large else None))
    ratio = statistics.median(ours[0] / dd[0] for dd, ours in zip(runs["dd"], runs["ppto"]))
    memory = max(run[1] for run in runs["ppto"])
    good = ratio <= MOST_TIME and memory <= MOST_MEMORY * limit
    seconds = {who: statistics.median(run[0] for run in samples) for who, samples in runs.items()}
    print(f"{name:<9} {seconds['dd']:>8.2f} {seconds['ppto']:>8.2f} {ratio:>6.2f} {memory / (1 << 20):>9.0f} "
          + " ".join(f"{seconds[who]:>8.2f}" if who in seconds else f"{'-':>8}" for who in options.peers)
          + ("" if good else " <-"), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ppto", required=True)
    parser.add_argument("--gb", type=float, default=10, help="size of the file in 10^9 bytes")
    parser.add_argument("--memory-limit", default="256M")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=[], help="numpy,dask,numexpr")
    parser.add_argument("--folder", help="where the files are made; the folder for temporary files")
    parser.add_argument("chains", nargs="*", metavar="CHAIN", help=" ".join(CHAINS))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    limit = int(options.memory_limit[:-1]) * UNITS[options.memory_limit[-1]]
    folder = tempfile.mkdtemp(prefix="ppto-files-", dir=options.folder)
    try:
        room = shutil.disk_usage(folder).free * 0.9 / 2e9
        size = min(options.gb, room)
        rows = int(size * 1e9) // (4 * COLUMNS)
        print(f"f32[{rows}, {COLUMNS}], {size:.1f} GB{'' if size == options.gb else ' (all the disk has room for)'}, "
              f"limit {options.memory_limit}, {'in' if options.warm else 'not in'} the page cache, "
              f"load {os.getloadavg()[0]:.1f}")
        print(f"{'chain':<9} {'dd s':>8} {'ppto s':>8} {'ratio':>6} {'RssAnon M':>9}",
              *(f"{peer + ' s':>8}" for peer in options.peers))
        source, result = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
        write_npy(source, rows)
        good = [run_chain(options, name, source, result, limit) for name in options.chains or CHAINS]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
