#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chains over a file larger than the memory they may use, beside dd.

    large_files.py --ppto build/ppto [--gb 10] [--memory-limit 256M] [--pairs 3] [--warm] [--folder DIR] [CHAIN...]

Every pair is dd, which reads the file (and writes one of the size of the result, for chains with a large result), then
ppto; before each the file is dropped from the page cache (--warm: read into it), and the clock runs until what was
written is on the disk. The ratio of a chain is the median over the pairs. RssAnon is the highest that was seen of the
process, looked at every few milliseconds. All files are deleted at the end, whatever happens. When the disk has no
room for two files of the size, a smaller one is taken, and the first line says so. Exit status 1 when a chain takes
more than 1.15 times the time of dd, or more than a quarter over its memory limit.
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

COLUMNS, MOST_TIME, MOST_MEMORY = 1024, 1.15, 1.25
CHAINS = {  # text, and whether the result is as large as the file
    "mean": ("mean(x, axis=0)", False),
    "std": ("std(x, axis=0)", False),
    "softmax": ("softmax(x)", True),
    "chain6": ("exp(-abs(sin(x) * 2 + 1)) / 3", True),
}
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


def run_pair(options, name, source, result):
    text, large = CHAINS[name]
    written = result if large else None
    dd = ["dd", f"if={source}", f"of={result if large else '/dev/null'}", "bs=4M", "status=none"]
    ours = [options.ppto, "run", text, f"x={source}", "-o", result, "--memory-limit", options.memory_limit]
    times = []
    for command in (dd, ours):
        settle(source, options.warm)
        if os.path.exists(result):
            os.remove(result)
        times.append(measure(command, written))
    return times[0][0], times[1][0], times[1][1]


def run_chain(options, name, source, result, limit):
    pairs = [run_pair(options, name, source, result) for _ in range(options.pairs)]
    ratio = statistics.median(ours / dd for dd, ours, _ in pairs)
    memory = max(pair[2] for pair in pairs)
    good = ratio <= MOST_TIME and memory <= MOST_MEMORY * limit
    print(f"{name:<9} {statistics.median(p[0] for p in pairs):>8.2f} {statistics.median(p[1] for p in pairs):>8.2f} "
          f"{ratio:>6.2f} {memory / (1 << 20):>9.0f} {'' if good else ' <-'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ppto", required=True)
    parser.add_argument("--gb", type=float, default=10, help="size of the file in 10^9 bytes")
    parser.add_argument("--memory-limit", default="256M")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--warm", action="store_true")
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
        print(f"{'chain':<9} {'dd s':>8} {'ppto s':>8} {'ratio':>6} {'RssAnon M':>9}")
        source, result = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
        write_npy(source, rows)
        good = [run_chain(options, name, source, result, limit) for name in options.chains or CHAINS]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
