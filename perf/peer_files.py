# SPDX-License-Identifier: Apache-2.0
"""Workloads on a file larger than the memory allowed (`kind = "file"` in workloads.toml).

Each peer runs in a process of its own whose anonymous memory is limited (RLIMIT_DATA); pages of mapped files do not
count, the kernel can drop them. Per peer: the wall time of one run with the file dropped from the page cache (cold),
the median of three runs with it cached (warm), and the peaks of resident memory, anonymous and in all, as the parent
sees them in /proc. `read` only reads the file through a buffer: what the file system allows.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MEMORY_LIMIT = 1 << 30
ROWS = 8192                     # rows a chunk: 32 MiB at 1024 columns of f32
PEERS = ["read", "numpy", "dask", "numexpr", "numba"]
WARM_RUNS = 3


# -------------------------------------------------------------------------------------------- the peers

def meanstd_numpy(x, threads):
    """Chunk by chunk; counts, means and squared deviations combined (Chan, Golub, LeVeque 1979)."""
    import numpy as np
    n, mean, m2 = 0, 0.0, 0.0
    for start in range(0, len(x), ROWS):
        chunk = np.asarray(x[start:start + ROWS])
        k = len(chunk)
        m = chunk.mean(axis=0)
        delta = m.astype(np.float64) - mean
        m2 = m2 + chunk.var(axis=0).astype(np.float64)*k + delta*delta*n*k/(n + k)
        mean = mean + delta*k/(n + k)
        n += k
    return mean, np.sqrt(m2/n)


class Mapped:
    """A mapped array that dask does not take for a NumPy array: it would copy the whole of it first."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.ndim = values, values.shape, values.dtype, values.ndim

    def __getitem__(self, index):
        return self.values[index]


def dask_array(x):
    import dask.array
    return dask.array.from_array(Mapped(x), chunks=(ROWS, -1))


def meanstd_dask(x, threads):
    import dask
    lazy = dask_array(x)
    return dask.compute(lazy.mean(axis=0), lazy.std(axis=0), scheduler="threads", num_workers=threads)


def meanstd_numba(x, threads):
    import numba
    import numpy as np

    @numba.njit(parallel=True, fastmath=True)
    def sums(x, parts):
        n, w = x.shape
        s = np.zeros((parts, w))
        q = np.zeros((parts, w))
        for p in numba.prange(parts):
            for i in range(n*p//parts, n*(p + 1)//parts):
                for j in range(w):
                    v = np.float64(x[i, j])
                    s[p, j] += v
                    q[p, j] += v*v
        return s, q
    s, q = sums(np.asarray(x), threads)
    mean = s.sum(axis=0)/len(x)
    return mean, np.sqrt(q.sum(axis=0)/len(x) - mean*mean)


def chain_numpy(x, out, threads):
    import numpy as np
    for start in range(0, len(x), ROWS):
        chunk = np.abs(x[start:start + ROWS])
        np.sqrt(chunk, out=chunk)
        chunk *= 2
        np.add(chunk, 1, out=out[start:start + ROWS])


def chain_dask(x, out, threads):
    import dask.array
    lazy = dask_array(x)
    dask.array.store(dask.array.sqrt(abs(lazy))*2 + 1, out, lock=False, scheduler="threads", num_workers=threads)


def chain_numexpr(x, out, threads):
    import numexpr
    import numpy as np
    numexpr.set_num_threads(threads)
    values = {"x": x, "two": np.float32(2), "one": np.float32(1)}
    numexpr.evaluate("sqrt(abs(x))*two + one", local_dict=values, out=out)


def chain_numba(x, out, threads):
    import math
    import numba
    import numpy as np

    @numba.njit(parallel=True, fastmath=True)
    def run(x, out):
        for i in numba.prange(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = math.sqrt(abs(x[i, j]))*np.float32(2) + np.float32(1)
    run(np.asarray(x), np.asarray(out))


def read_file(path):
    buffer = bytearray(8 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def run_peer(peer, name, path, output, threads):
    """In the child: one run; prints the seconds and a few values of the result."""
    import numpy as np
    if peer == "read":
        start = time.perf_counter()
        read_file(path)
        return {"seconds": time.perf_counter() - start, "values": []}
    work = globals().get(f"{'meanstd' if name == 'file-meanstd' else 'chain'}_{peer}")
    if work is None:
        return {"skipped": "no text for this peer"}
    start = time.perf_counter()
    x = np.load(path, mmap_mode="r")
    if name == "file-meanstd":
        mean, std = work(x, threads)
        seconds = time.perf_counter() - start
        values = [float(v) for v in (*mean[::100], *std[::100])]
    else:
        out = np.lib.format.open_memmap(output, mode="w+", dtype=x.dtype, shape=x.shape)
        work(x, out, threads)
        seconds = time.perf_counter() - start
        values = [float(v) for v in out[::99991, 7]]
    return {"seconds": seconds, "values": values}


# ------------------------------------------------------------------------------------------- the parent

def make_file(path, spec):
    """Writes the input in blocks, so that making it takes little memory."""
    import numpy as np
    from peer_worker import fill, parse_spec
    dtype, (rows, columns), _, _ = parse_spec(spec)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(rows, columns))
    for start in range(0, rows, ROWS):
        count = min(ROWS, rows - start)
        out[start:start + count] = fill(spec.replace(f"[{rows},", f"[{count},"), start)
    out.flush()


def drop_from_cache(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(pid):
    """Resident anonymous and total bytes of a process, 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return tuple(int(fields[key].split()[0]) * 1024 if key in fields else 0 for key in ("RssAnon", "VmRSS"))


def one_run(peer, name, path, output, threads, env):
    def child():
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    command = [sys.executable, __file__, peer, name, str(path), str(output), str(threads)]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=child)
    peak_anonymous = peak_total = 0
    while process.poll() is None:
        anonymous, total = resident(process.pid)
        peak_anonymous, peak_total = max(peak_anonymous, anonymous), max(peak_total, total)
        time.sleep(0.02)
    text, problem = process.communicate()
    if process.returncode:
        return {"failed": (problem.strip().splitlines() or ["no message"])[-1][:300]}
    return dict(json.loads(text), peak_anonymous=peak_anonymous, peak_resident=peak_total)


def measure_file(workload, threads, env, given, scratch):
    """{peer: figures} of one file workload."""
    env = {key: value for key, value in env.items() if not key.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        path = Path(given) if given else Path(folder) / "input.npy"
        if not path.exists():
            make_file(path, workload["inputs"]["x"])
        output = Path(folder) / "output.npy"
        outcome, expected = {}, None
        for peer in PEERS:
            drop_from_cache(path)
            cold = one_run(peer, workload["name"], path, output, threads, env)
            if "seconds" not in cold:
                outcome[peer] = cold
                continue
            read_file(path)
            warm = [one_run(peer, workload["name"], path, output, threads, env) for _ in range(WARM_RUNS)]
            samples = [run["seconds"] for run in warm if "seconds" in run]
            figures = {"cold_seconds": cold["seconds"], "samples": samples, "seconds": statistics.median(samples),
                       "peak_anonymous": max(run["peak_anonymous"] for run in (cold, *warm)),
                       "peak_resident": max(run["peak_resident"] for run in (cold, *warm))}
            values = cold["values"]
            if values:
                expected = expected or values
                figures["error"] = max(abs(a - b) for a, b in zip(values, expected)) / max(map(abs, expected))
                figures["ok"] = figures["error"] < 1e-4
            outcome[peer] = figures
            output.unlink(missing_ok=True)
    return outcome


if __name__ == "__main__":
    peer, name, path, output, threads = sys.argv[1:]
    print(json.dumps(run_peer(peer, name, path, output, int(threads))))
