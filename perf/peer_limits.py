# SPDX-License-Identifier: Apache-2.0
"""What the machine allows: memory bandwidth by working set and the peak of products, and the limit of a workload."""

import json
import os
import shutil
import subprocess
from math import prod
from pathlib import Path

from peer_process import bind

HERE = Path(__file__).resolve().parent
SIZES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


def measure_limits(scratch, thread_counts):
    """Compiles and runs limits.c: {threads: figures}; empty without a C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        return {}
    binary = Path(scratch) / "limits"
    subprocess.run([compiler, "-O3", "-march=native", "-fopenmp", str(HERE / "limits.c"), "-o", str(binary)], check=True)
    limits = {}
    for threads in thread_counts:
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        done = subprocess.run([str(binary)], env=env, capture_output=True, text=True, check=True,
                              preexec_fn=lambda count=threads: bind(count))
        limits[threads] = json.loads(done.stdout)
    return limits


def bandwidth(limits, working_set, reads_only):
    """Bytes per second at the nearest measured working set: the best of triad and stream, or read alone."""
    kinds = ["read_gbps"] if reads_only else ["triad_gbps", "stream_gbps"]
    best = 0.0
    for kind in kinds:
        sizes = limits[kind]
        nearest = min(sizes, key=lambda size: abs(float(size) / working_set - 1)
                      if float(size) > working_set else abs(working_set / float(size) - 1))
        best = max(best, sizes[nearest])
    return best * 1e9


def output_fraction(workload):
    """The part of min_bytes that is written, from the sizes of the inputs."""
    read = 0
    for spec in workload["inputs"].values():
        dtype, rest = spec.split("[", 1)
        shape = [int(n) for n in rest.split("]")[0].split(",") if n]
        read += prod(shape) * SIZES[dtype]
    return 1 - read / workload["min_bytes"]


def limit_seconds(workload, limits, sgemm):
    """The least time the machine allows: memory or arithmetic, whichever is longer."""
    if not limits or not workload.get("min_bytes"):
        return None, None
    memory = workload["min_bytes"] / bandwidth(limits, workload["min_bytes"], output_fraction(workload) < 0.05)
    rate = sgemm * (0.5 if "f64" in str(workload["inputs"]) else 1.0)
    product = workload["group"] in ("linalg", "network")
    arithmetic = workload["flops"] / rate if rate and product else 0.0
    return max(memory, arithmetic), "memory" if memory >= arithmetic else "sgemm"
