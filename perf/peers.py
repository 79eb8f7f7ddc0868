#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the workloads of workloads.toml on existing frameworks and, if given, on ppto.

    peers.py --workloads 'chain5-*,softmax-*' --peers numpy,torch,jax --threads 2 --json out.json
    peers.py --ppto ./build/ppto --json out.json            every workload, every peer, threads 1 and 2

How it measures
  * Every peer lives in its own process (peer_worker.py) with its thread count in the environment and its CPU
    affinity set to that many CPUs. Inputs are the same numbers everywhere.
  * Each result is checked against NumPy in float64: max|got - ref| / max|ref| must be under the workload's `tol`.
  * Compilation and warm-up happen before timing and are reported as `compile_seconds`. A sample is the mean of as
    many calls as fill about 30 ms, after one untimed call. Samples are taken round robin (A B C A B C ...), so drift
    of the machine is shared; the figure is their median. A peer that takes over 0.4 s a call is sampled once.
  * Linux tells how long the threads of a peer waited for a CPU: a sample disturbed by other work is taken again, up
    to three times, and samples still disturbed are left out of the median. (A peer with more threads than CPUs
    disturbs itself; its samples count as they are.)
  * Output pages are warm: the C allocator of every peer keeps freed memory and asks for huge pages
    (--alloc fresh leaves the allocator alone and shows what page faults cost).
  * limits.c measures memory bandwidth by working set and the peak fma rate in the same run; the best sgemm of the
    peers at 2048 gives the practical product limit. `limit_seconds` of a workload is the larger of
    min_bytes / bandwidth and flops / sgemm rate; `fraction` is limit_seconds / seconds.

kind of workload
  steady   seconds per call, above
  first    seconds from a chain never seen to its first result, in a warm process
  shapes   seconds for 100 lengths through one function, and the number of compilations
  record   nanoseconds per recorded node
  file     a 4 GB file in bounded memory: peer_files.py

tables
  Each [[workload]] has a name, group, inputs and a text for every peer. `over` lists values that stand for {NAME} in
  name, inputs and texts: the entry is one workload for every choice (variations.toml). In a NumPy text `out` is the
  result of the call before, None in the first, so that NumPy need not allocate. Without min_bytes there is no limit.
  OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are taken out of the environment of every peer: where they are set, OpenBLAS
  runs a kernel that is not this processor's.

ppto as a peer
  PATH bench PROGRAM NAME=SPEC... --threads N --repeat M --json
  is run once per round, M calls that fill about 30 ms (20 to 2000); SPEC is the text of `inputs` (`f32[1024,1024]:uniform(-1,1)`). From the JSON object on its
  stdout are read: median_seconds (required), compile_seconds, error (against its own float64 evaluation) and, for
  kind first, first_seconds. Kinds shapes, record and file are not asked of it.
"""

import argparse
import fnmatch
import itertools
import json
import os
import platform
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALL_PEERS = ["numpy", "torch", "torch-compile", "jax", "numexpr", "numba", "mlx", "dask"]
SETTLE_SECONDS = 0.06           # lets the spinning threads of the previous peer go to sleep
SLOW_SECONDS = 0.4              # a peer with a sample above this is not sampled again
QUIET = 0.03                    # waiting for a CPU up to this part of a sample is no disturbance
TOLERANCE = {"f32": 1e-4, "f64": 1e-10}
PPTO_SECONDS = 0.03             # what the calls of one run of ppto should fill


# ------------------------------------------------------------------------------------------- environment

def environment(threads, alloc, scratch):
    """The environment of a peer: thread counts, allocator, no forced BLAS kernels, a private compile cache."""
    env = {key: value for key, value in os.environ.items()
           if key not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "LD_PRELOAD")}
    for name in ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA"):
        env[f"{name}_NUM_THREADS"] = str(threads)
    env["NUMEXPR_MAX_THREADS"] = str(threads)
    env["NUMBA_THREADING_LAYER"] = "omp"
    env["OPENBLAS_THREAD_TIMEOUT"] = "22"       # 2**22 cycles: its workers must not spin into the next peer's sample
    env["TORCHINDUCTOR_CACHE_DIR"] = str(Path(scratch) / f"inductor-{threads}")
    env["TMPDIR"] = str(scratch)                # MLX keeps compiled kernels in the temporary folder
    env["JAX_PLATFORMS"] = "cpu"
    env["TF_CPP_MIN_LOG_LEVEL"] = "2"
    if alloc == "warm":
        env["MALLOC_MMAP_MAX_"] = "0"
        env["MALLOC_TRIM_THRESHOLD_"] = str(1 << 40)
        env["MALLOC_ARENA_MAX"] = "1"
        env["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    return env


def bind(threads):
    """Run in the child before exec: the last `threads` CPUs that this process may use."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


class Peer:
    """A worker process and the questions it answers."""

    def __init__(self, name, threads, env, log):
        self.name, self.threads, self.env, self.log = name, threads, env, log
        self.process = None

    def start(self):
        read, write = os.pipe()
        command = [sys.executable, str(HERE / "peer_worker.py"), self.name, str(self.threads)]

        def child():
            bind(self.threads)
            os.dup2(write, 3)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self.log, stderr=self.log,
                                        env=self.env, pass_fds=(3, write), preexec_fn=child, text=True)
        os.close(write)
        self.answers = os.fdopen(read)

    def ask(self, timeout, **request):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.stop()
            return {"failed": "the process ended"}
        ready, _, _ = select.select([self.answers], [], [], timeout)
        if not ready:
            self.stop()
            return {"failed": f"no answer in {timeout:.0f} s"}
        line = self.answers.readline()
        if not line:
            status = self.process.wait()
            self.stop()
            return {"failed": f"the process ended with status {status}"}
        return json.loads(line)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.answers.close()
            self.process = None


class Ppto:
    """The `ppto` command as a peer: stateless, one run per sample."""

    name = "ppto"

    def __init__(self, path, threads):
        self.path, self.threads = path, threads

    def bench(self, workload, timeout, seen=None):
        """seen: seconds of a call, when known."""
        repeat = 20 if not seen else max(20, min(2000, int(PPTO_SECONDS / seen)))
        command = [self.path, "bench", workload["ppto"].strip(),
                   *(f"{name}={spec}" for name, spec in workload.get("inputs", {}).items()),
                   "--threads", str(self.threads), "--repeat", str(repeat), "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                                  preexec_fn=lambda: bind(self.threads))
        except (OSError, subprocess.TimeoutExpired) as problem:
            return {"failed": str(problem)[:300]}
        if done.returncode != 0:
            return {"failed": (done.stderr.strip().splitlines() or ["no message"])[0][:300]}
        return json.loads(done.stdout)


# ------------------------------------------------------------------------------------------------ limits

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


SIZES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


def output_fraction(workload):
    """The part of min_bytes that is written, from the sizes of the inputs."""
    from math import prod
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


# ----------------------------------------------------------------------------------------------- measure

def tolerance(workload):
    return workload.get("tol", TOLERANCE["f64" if "f64" in str(workload["inputs"]) else "f32"])


def quiet_median(figures):
    """Median of the samples about as undisturbed as the least disturbed one."""
    samples, disturbed = figures["samples"], figures.get("disturbed")
    if not disturbed:
        return statistics.median(samples)
    least = max(QUIET, 1.3*min(disturbed))
    return statistics.median(s for s, d in zip(samples, disturbed) if d <= least)


def quiet_sample(peer, seen):
    """The least disturbed of up to four samples; one is enough when it is about as quiet as any seen before."""
    best, quiet = None, max(QUIET, 1.3*min(seen, default=0))
    for attempt in range(4):
        time.sleep(SETTLE_SECONDS if attempt == 0 else 5*SETTLE_SECONDS)
        sample = peer.ask(120, do="sample")
        if "failed" in sample:
            return sample
        if best is None or sample["disturbed"] < best["disturbed"]:
            best = sample
        if best["disturbed"] <= quiet or best["seconds"] > SLOW_SECONDS:
            break
    return best


def write_reference(workload, path, scratch):
    """The float64 result of the NumPy text, by a process of its own."""
    oracle = Peer("numpy", 1, environment(1, "fresh", scratch), subprocess.DEVNULL)
    answer = oracle.ask(300, do="reference", workload=workload, path=str(path))
    oracle.stop()
    return answer


def prepare(workload, peers, path, timeout):
    """Compiles, warms and checks every peer: {peer: figures} of all, and the peers that can be timed."""
    outcome, ready = {}, []
    for peer in peers:
        figures = outcome[peer.name] = peer.ask(timeout, do="prepare", workload=workload, path=str(path))
        if "failed" in figures or "skipped" in figures:
            continue
        figures.update(tolerance=tolerance(workload), samples=[], disturbed=[])
        figures["ok"] = figures["error"] <= figures["tolerance"]
        ready.append(peer)
    return outcome, ready


def sample_peer(peer, figures):
    """Adds one sample to the figures of a peer; a slow or failed peer is left alone."""
    if "failed" in figures or max(figures["samples"], default=0) > SLOW_SECONDS:
        return
    sample = quiet_sample(peer, figures["disturbed"])
    if "failed" in sample:
        figures.update(sample)
    else:
        figures["samples"].append(sample["seconds"])
        figures["disturbed"].append(round(sample["disturbed"], 4))


def sample_ppto(ppto, workload, figures):
    """Adds one run of `ppto bench` to its figures."""
    if "failed" in figures:
        return
    if "median" not in figures:
        first = ppto.bench(workload, 120)
        figures["median"] = first.get("median_seconds")
    answer = ppto.bench(workload, 120, figures["median"])
    if "failed" in answer:
        figures.update(answer)
    else:
        figures["samples"].append(answer["median_seconds"])
        figures.update({key: answer[key] for key in ("compile_seconds", "error") if key in answer})


def measure_steady(workload, peers, ppto, rounds, scratch, compile_timeout):
    """{peer: figures} of one steady workload."""
    reference = Path(scratch) / "reference.npz"
    answer = write_reference(workload, reference, scratch)
    if "failed" in answer:
        return {"reference": answer}
    outcome, ready = prepare(workload, peers, reference, compile_timeout)
    if ppto and "ppto" in workload:
        outcome["ppto"] = {"samples": []}
    for _ in range(rounds):
        for peer in ready:
            sample_peer(peer, outcome[peer.name])
        if "ppto" in outcome:
            sample_ppto(ppto, workload, outcome["ppto"])
    for peer in ready:
        peer.ask(60, do="drop")
    for figures in outcome.values():
        if figures.get("samples"):
            samples = figures["samples"]
            figures.update(seconds=quiet_median(figures), min=min(samples), max=max(samples))
    reference.unlink()
    return outcome


def measure_latency(workload, peers, ppto):
    outcome = {}
    for peer in peers:
        time.sleep(SETTLE_SECONDS)
        outcome[peer.name] = peer.ask(300, do="latency", workload=workload)
    if ppto and workload["kind"] == "first" and "ppto" in workload:
        figures = ppto.bench(workload, 120)
        outcome["ppto"] = figures if "failed" in figures else {"seconds": figures.get("first_seconds")}
    return outcome


def judge(workload, outcome, limits, sgemm):
    """Adds the best peer and its fraction of the limit."""
    result = {"workload": workload["name"], "group": workload["group"], "kind": workload.get("kind", "steady"),
              "note": workload.get("note", ""), "peers": outcome}
    valid = {name: figures["seconds"] for name, figures in outcome.items()
             if figures.get("seconds") is not None and figures.get("ok", True)}
    if valid:
        result["best"] = min(valid, key=valid.get)
        result["best_seconds"] = valid[result["best"]]
    if result["kind"] == "steady":
        seconds, bound = limit_seconds(workload, limits, sgemm)
        size, flops = workload.get("min_bytes", 0), workload.get("flops", 0)
        result.update(limit_seconds=seconds, bound=bound, min_bytes=size, flops=flops)
        for figures in outcome.values():
            if figures.get("seconds"):
                figures["gbps"] = size / figures["seconds"] * 1e-9
                figures["gflops"] = flops / figures["seconds"] * 1e-9
                if seconds:
                    figures["fraction"] = seconds / figures["seconds"]
    return result


def best_sgemm(workloads, threads, alloc, scratch, log):
    """The best GFLOP/s of NumPy and torch at 2048, in flop/s; what a product can be expected to reach."""
    workload = next((w for w in workloads if w["name"] == "sgemm-2048"), None)
    if workload is None:
        return 0.0
    peers = [Peer(name, threads, environment(threads, alloc, scratch), log) for name in ("numpy", "torch")]
    outcome = measure_steady(workload, peers, None, 5, scratch, 120)
    for peer in peers:
        peer.stop()
    seconds = [figures["seconds"] for figures in outcome.values() if figures.get("seconds")]
    return workload["flops"] / min(seconds) if seconds else 0.0


def machine():
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    memory = next((int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()
                   if line.startswith("MemTotal")), 0)
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 1048576, 1),
            "kernel": platform.release(), "python": platform.python_version()}


def line(result, threads):
    """One line of progress per workload."""
    parts = []
    for name, figures in result["peers"].items():
        if figures.get("seconds") is not None:
            wrong = "" if figures.get("ok", True) else " WRONG"
            extra = f" ({figures['compilations']} compiled)" if figures.get("compilations") is not None else ""
            parts.append(f"{name} {figures['seconds']*1e3:.4g} ms{extra}{wrong}")
        elif "failed" in figures:
            parts.append(f"{name} FAILED {figures['failed'][:60]}")
    numpy, ppto = (result["peers"].get(name, {}).get("seconds") for name in ("numpy", "ppto"))
    if numpy and ppto:
        parts.append(f"numpy/ppto {numpy/ppto:.2f}")
    limit = f" limit {result['limit_seconds']*1e3:.4g} ms" if result.get("limit_seconds") else ""
    return f"[{threads}] {result['workload']}: {', '.join(parts)}{limit}"


def choices(workload):
    """One workload for every choice of the values in `over`."""
    over = workload.get("over", {})
    for values in itertools.product(*over.values()):
        chosen = dict(zip(over, map(str, values)))

        def fill(text):
            return re.sub(r"\{(\w+)\}", lambda match: chosen.get(match[1], match[0]), text)
        yield {key: fill(value) if isinstance(value, str) else {name: fill(spec) for name, spec in value.items()}
               if key == "inputs" else value for key, value in workload.items() if key != "over"}


def main():
    parser = argparse.ArgumentParser(description="Time the workloads on peers.", epilog="See the head of this file.")
    parser.add_argument("--workloads", default="*", help="comma-separated name patterns, or group:NAME")
    parser.add_argument("--peers", default=",".join(ALL_PEERS))
    parser.add_argument("--threads", default="1,2", help="comma-separated thread counts")
    parser.add_argument("--rounds", type=int, default=7, help="samples per peer")
    parser.add_argument("--compile-timeout", type=float, default=60, help="seconds a peer may take to prepare")
    parser.add_argument("--alloc", choices=["warm", "fresh"], default="warm")
    parser.add_argument("--file", help="an existing .npy file for kind file; without it a temporary one is made")
    parser.add_argument("--scratch", help="folder for compile caches and references")
    parser.add_argument("--ppto", help="path of the ppto command")
    parser.add_argument("--table", help="a file of further workloads; only these are chosen from")
    parser.add_argument("--json", help="where to write the figures")
    options = parser.parse_args()

    everything = tomllib.loads((HERE / "workloads.toml").read_text())["workload"]
    further = tomllib.loads(Path(options.table).read_text())["workload"] if options.table else []
    further = [choice for workload in further for choice in choices(workload)]
    patterns = options.workloads.split(",")
    chosen = [w for w in further or everything if any(
        w["group"] == p.removeprefix("group:") if p.startswith("group:") else fnmatch.fnmatch(w["name"], p)
        for p in patterns)]
    thread_counts = [int(n) for n in options.threads.split(",")]
    report = {"machine": machine(), "alloc": options.alloc, "versions": {}, "limits": {}, "results": []}
    scratch = tempfile.mkdtemp(prefix="peers-", dir=options.scratch)
    try:
        limits = measure_limits(scratch, thread_counts)
        for threads in thread_counts:
            with open(Path(scratch) / "log", "w") as log:
                measure_all(options, everything, chosen, threads, limits.get(threads), report, scratch, log)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measure_all(options, everything, chosen, threads, limits, report, scratch, log):
    """Every chosen workload at one thread count; the report is written after each."""
    products = any(w["group"] in ("linalg", "network") and w.get("flops") for w in chosen)
    sgemm = best_sgemm(everything, threads, options.alloc, scratch, log) if products else 0.0
    report["limits"][str(threads)] = dict(limits or {}, sgemm_gflops=sgemm * 1e-9)
    env = environment(threads, options.alloc, scratch)
    peers = [Peer(name, threads, env, log) for name in options.peers.split(",") if name]
    ppto = Ppto(options.ppto, threads) if options.ppto else None
    for peer in peers:
        report["versions"].update(peer.ask(120, do="hello").get("versions", {}))
    for workload in chosen:
        kind = workload.get("kind", "steady")
        if kind == "file":
            from peer_files import measure_file
            outcome = measure_file(workload, threads, env, options.file, scratch)
        elif kind == "steady":
            outcome = measure_steady(workload, peers, ppto, options.rounds, scratch, options.compile_timeout)
        else:
            outcome = measure_latency(workload, peers, ppto)
        result = dict(judge(workload, outcome, limits, sgemm), threads=threads)
        report["results"].append(result)
        if workload["name"].startswith("sgemm") and "best_seconds" in result:
            sgemm = max(sgemm, workload["flops"] / result["best_seconds"])
            report["limits"][str(threads)]["sgemm_gflops"] = sgemm * 1e-9
        print(line(result, threads), flush=True)
        if options.json:
            Path(options.json).write_text(json.dumps(report, indent=1))
    for peer in peers:
        peer.stop()


if __name__ == "__main__":
    main()
