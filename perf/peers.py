#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the workloads of workloads.toml on existing frameworks and, if given, on ppto.

    peers.py --workloads 'chain5-*,softmax-*' --peers numpy,torch,jax --threads 2 --json out.jsonl
    peers.py --ppto ./build/ppto --json out.jsonl           every workload, every peer, threads 1 and 2

How it measures
  * Every peer lives in processes of its own, one per number of threads, with its thread count in the environment and its
    CPU affinity set to that many CPUs (peer_process.py). Inputs are the same numbers everywhere.
  * Each result, that of ppto too, is checked against NumPy in float64: max|got - ref| / max|ref| must be under the
    workload's `tol`.
  * Compilation and warm-up happen before timing, all peers at once, and are reported as `compile_seconds`. A sample is
    the mean of as many calls as fill about 30 ms, after one untimed call. Samples are taken round robin over peers and
    thread counts (A1 A2 B1 B2 A1 ...), so drift of the machine is shared; the figure is their median. A peer that takes
    over 0.4 s a call is sampled once.
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
  is run once per round, M calls that fill about 30 ms (5 to 2000); SPEC is the text of `inputs`
  (`f32[1024,1024]:uniform(-1,1)`). Kinds first, shapes and record are asked of perf/latency beside it; for shapes
  it is given the chain of the peers.

JSON lines
  {"line": "machine", limits, versions, ...} first, then one {"line": "result"} per workload and number of threads with
  the samples of all peers. With --append they are added to a file, whose limits are used again if it has any.
"""

import argparse
import fnmatch
import itertools
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from peer_limits import limit_seconds, measure_limits
from peer_process import Peer, Ppto, environment
from peer_worker import SHAPES_SEED, random_chain

HERE = Path(__file__).resolve().parent
ALL_PEERS = ["numpy", "torch", "torch-compile", "jax", "numexpr", "numba", "mlx", "dask"]
SETTLE_SECONDS = 0.06           # lets the spinning threads of the previous peer go to sleep
SLOW_SECONDS = 0.4              # a peer with a sample above this is not sampled again
QUIET = 0.03                    # waiting for a CPU up to this part of a sample is no disturbance
TOLERANCE = {"f32": 1e-4, "f64": 1e-10}


# ------------------------------------------------------------------------------------------------ samples

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
    time.sleep(SETTLE_SECONDS)
    answer = ppto.bench(workload, 120, figures["median"])
    if "failed" in answer:
        figures.update(answer)
    else:
        figures["samples"].append(answer["median_seconds"])
        figures.update({key: answer[key] for key in ("kernels", "tier", "compile_seconds") if key in answer})


# --------------------------------------------------------------------------------------- one steady workload

class Runner:
    """All that is timed with one number of threads."""

    def __init__(self, threads, options, scratch, log):
        self.threads = threads
        env = environment(threads, options.alloc, options.scratch or scratch)
        self.peers = [Peer(name, threads, env, log) for name in options.peers.split(",") if name]
        self.ppto = Ppto(options.ppto, threads) if options.ppto else None
        self.env = env

    def stop(self):
        for peer in self.peers:
            peer.stop()


class Oracle:
    """The float64 result of the NumPy text, by a process of its own, and how far others are from it."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.path = str(Path(scratch) / "reference.npz")
        self.peer = Peer("numpy", 1, environment(1, "fresh", scratch), subprocess.DEVNULL)

    def write(self, workload):
        return self.peer.ask(300, do="reference", workload=workload, path=self.path)

    def check(self, ppto, workload):
        """{error, tolerance, ok} of ppto, or {failed}."""
        files, problem = ppto.results(workload, self.scratch)
        answer = self.peer.ask(300, do="compare", files=files, path=self.path) if files else {"failed": problem}
        return answer if "failed" in answer else dict(answer, tolerance=tolerance(workload),
                                                      ok=answer["error"] <= tolerance(workload))

    def forget(self):
        for file in Path(self.scratch).glob("*.np[yz]"):
            file.unlink()


def prepare(workload, runners, path, timeout):
    """Compiles, warms and checks every peer, all at once: {threads: {peer: figures}}, and the peers that can be timed."""
    peers = [peer for runner in runners for peer in runner.peers]
    with ThreadPoolExecutor(len(peers) or 1) as pool:
        answers = list(pool.map(lambda peer: peer.ask(timeout, do="prepare", workload=workload, path=path), peers))
    outcome, ready = {runner.threads: {} for runner in runners}, []
    for peer, figures in zip(peers, answers):
        outcome[peer.threads][peer.name] = figures
        if "failed" in figures or "skipped" in figures:
            continue
        figures.update(tolerance=tolerance(workload), samples=[], disturbed=[])
        figures["ok"] = figures["error"] <= figures["tolerance"]
        ready.append(peer)
    return outcome, ready


def measure_steady(workload, runners, rounds, oracle, compile_timeout):
    """{threads: {peer: figures}} of one steady workload."""
    answer = oracle.write(workload)
    if "failed" in answer:
        return {runner.threads: {"reference": answer} for runner in runners}
    outcome, ready = prepare(workload, runners, oracle.path, compile_timeout)
    ours = [runner.ppto for runner in runners if runner.ppto and "ppto" in workload]
    for ppto in ours:
        outcome[ppto.threads]["ppto"] = {"samples": [], **oracle.check(ppto, workload)}
    oracle.forget()
    for _ in range(rounds):
        for peer in sorted(ready, key=lambda peer: peer.name):
            sample_peer(peer, outcome[peer.threads][peer.name])
        for ppto in ours:
            sample_ppto(ppto, workload, outcome[ppto.threads]["ppto"])
    for peer in ready:
        peer.ask(60, do="drop")
    for figures in itertools.chain(*(by_name.values() for by_name in outcome.values())):
        if samples := figures.get("samples"):
            figures.update(seconds=quiet_median(figures), min=min(samples), max=max(samples))
    return outcome


def measure_latency(workload, runner):
    outcome = {}
    for peer in runner.peers:
        time.sleep(SETTLE_SECONDS)
        outcome[peer.name] = peer.ask(300, do="latency", workload=workload)
    if runner.ppto:
        outcome["ppto"] = runner.ppto.latency(workload, random_chain(SHAPES_SEED, workload.get("ops", 10)))
    return outcome


# -------------------------------------------------------------------------------------------------- results

def judge(workload, outcome, limits, threads):
    """The line of a result: the best peer, and every figure as a part of the limit."""
    result = {"line": "result", "workload": workload["name"], "threads": threads, "group": workload["group"],
              "kind": workload.get("kind", "steady"), "note": workload.get("note", ""), "peers": outcome}
    valid = {name: figures["seconds"] for name, figures in outcome.items()
             if name != "ppto" and figures.get("seconds") is not None and figures.get("ok", True)}
    if valid:
        result["best"] = min(valid, key=valid.get)
        result["best_seconds"] = valid[result["best"]]
        ppto = outcome.get("ppto", {})
        if ppto.get("seconds") and ppto.get("ok", True):
            result["ratio"] = result["best_seconds"] / ppto["seconds"]
    if result["kind"] == "steady":
        seconds, bound = limit_seconds(workload, limits, limits.get("sgemm_gflops", 0) * 1e9)
        size, flops = workload.get("min_bytes", 0), workload.get("flops", 0)
        result.update(limit_seconds=seconds, bound=bound, min_bytes=size, flops=flops)
        for figures in outcome.values():
            if figures.get("seconds"):
                figures["gbps"] = size / figures["seconds"] * 1e-9
                figures["gflops"] = flops / figures["seconds"] * 1e-9
                if seconds:
                    figures["fraction"] = seconds / figures["seconds"]
    return result


def best_sgemm(workload, runners, oracle):
    """{threads: GFLOP/s} of the best of NumPy and torch at 2048; what a product can be expected to reach."""
    libraries = [argparse.Namespace(threads=r.threads, ppto=None, peers=[p for p in r.peers if p.name in ("numpy", "torch")])
                 for r in runners]
    outcome = measure_steady(workload, libraries, 5, oracle, 120)
    best = {}
    for threads, by_name in outcome.items():
        seconds = [figures["seconds"] for figures in by_name.values() if figures.get("seconds")]
        best[threads] = workload["flops"] / min(seconds) * 1e-9 if seconds else 0.0
    return best


def machine():
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.processor())
    memory = next((int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()
                   if line.startswith("MemTotal")), 0)
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "memory_gib": round(memory / 1048576, 1),
            "kernel": platform.release().split("-")[0], "python": platform.python_version()}


def progress(result):
    """One line of progress per workload."""
    parts = []
    for name, figures in result["peers"].items():
        if figures.get("seconds") is not None:
            wrong = "" if figures.get("ok", True) else " WRONG"
            extra = f" ({figures['compilations']} compiled)" if figures.get("compilations") is not None else ""
            parts.append(f"{name} {figures['seconds']*1e3:.4g} ms{extra}{wrong}")
        elif "failed" in figures:
            parts.append(f"{name} FAILED {figures['failed'][:60]}")
    limit = f", limit {result['limit_seconds']*1e3:.4g} ms" if result.get("limit_seconds") else ""
    ratio = f", {result['best']}/ppto {result['ratio']:.2f}" if result.get("ratio") else ""
    return f"[{result['threads']}] {result['workload']}: {', '.join(parts)}{limit}{ratio}"


# ----------------------------------------------------------------------------------------------------- main

def choices(workload):
    """One workload for every choice of the values in `over`."""
    over = workload.get("over", {})
    for values in itertools.product(*over.values()):
        chosen = dict(zip(over, map(str, values)))

        def fill(text):
            return re.sub(r"\{(\w+)\}", lambda match: chosen.get(match[1], match[0]), text)
        yield {key: fill(value) if isinstance(value, str) else {name: fill(spec) for name, spec in value.items()}
               if key == "inputs" else value for key, value in workload.items() if key != "over"}


def chosen_workloads(options, everything):
    further = tomllib.loads(Path(options.table).read_text())["workload"] if options.table else []
    further = [choice for workload in further for choice in choices(workload)]
    patterns = options.workloads.split(",")
    return [w for w in further or everything if any(
        w["group"] == p.removeprefix("group:") if p.startswith("group:") else fnmatch.fnmatch(w["name"], p)
        for p in patterns)]


def arguments():
    parser = argparse.ArgumentParser(description="Time the workloads on peers.", epilog="See the head of this file.")
    parser.add_argument("--workloads", default="*", help="comma-separated name patterns, or group:NAME")
    parser.add_argument("--peers", default=",".join(ALL_PEERS))
    parser.add_argument("--threads", default="1,2", help="comma-separated thread counts")
    parser.add_argument("--rounds", type=int, default=7, help="samples per peer")
    parser.add_argument("--compile-timeout", type=float, default=60, help="seconds a peer may take to prepare")
    parser.add_argument("--alloc", choices=["warm", "fresh"], default="warm")
    parser.add_argument("--file", help="an existing .npy file for kind file; without it a temporary one is made")
    parser.add_argument("--scratch", help="a folder for what peers compile, kept; compile_seconds of a second run are less")
    parser.add_argument("--ppto", help="path of the ppto command")
    parser.add_argument("--table", help="a file of further workloads; only these are chosen from")
    parser.add_argument("--json", help="where to write the figures, as JSON lines")
    parser.add_argument("--append", action="store_true", help="add to that file")
    return parser.parse_args()


class Lines:
    """The file of JSON lines, written as the run goes on."""

    def __init__(self, options):
        self.path = Path(options.json) if options.json else None
        self.before = {}
        if self.path and options.append and self.path.exists():
            for text in self.path.read_text().splitlines():
                if json.loads(text)["line"] == "machine":
                    self.before = json.loads(text)
        elif self.path:
            self.path.write_text("")

    def write(self, line):
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def measure_machine(options, everything, chosen, runners, scratch, oracle, lines):
    """(limits, the line of the machine with them); from the file that is added to, or measured now."""
    counts = [runner.threads for runner in runners]
    limits = {t: dict(lines.before.get("limits", {}).get(str(t), {})) for t in counts}
    if not all(limits.values()):
        limits = {t: dict(figures) for t, figures in measure_limits(scratch, counts).items()} or {t: {} for t in counts}
    if any(w["group"] in ("linalg", "network") and w.get("flops") for w in chosen):
        product = next(w for w in everything if w["name"] == "sgemm-2048")
        if not all(limits[t].get("sgemm_gflops") for t in counts):
            for threads, rate in best_sgemm(product, runners, oracle).items():
                limits[threads]["sgemm_gflops"] = rate
    versions = {}
    for peer in runners[0].peers:
        versions.update(peer.ask(120, do="hello").get("versions", {}))
    line = {"line": "machine", **machine(), "alloc": options.alloc, "rounds": options.rounds, "versions": versions,
            "started": time.strftime("%Y-%m-%d %H:%M:%S"), "limits": {str(t): limits[t] for t in counts}}
    lines.write(line)
    return limits, line


def measure_one(workload, options, runners, oracle, scratch):
    """{threads: {peer: figures}} of a workload of any kind."""
    kind = workload.get("kind", "steady")
    if kind == "steady":
        return measure_steady(workload, runners, options.rounds, oracle, options.compile_timeout)
    if kind == "file":
        from peer_files import measure_file
        return {r.threads: measure_file(workload, r.threads, r.env, options.file, scratch) for r in runners}
    return {runner.threads: measure_latency(workload, runner) for runner in runners}


def measure_all(options, scratch, log):
    everything = tomllib.loads((HERE / "workloads.toml").read_text())["workload"]
    chosen = chosen_workloads(options, everything)
    runners = [Runner(int(n), options, scratch, log) for n in options.threads.split(",")]
    oracle, lines = Oracle(scratch), Lines(options)
    limits, line = measure_machine(options, everything, chosen, runners, scratch, oracle, lines)
    for workload in chosen:
        outcome = measure_one(workload, options, runners, oracle, scratch)
        for threads, by_name in outcome.items():
            result = judge(workload, by_name, limits[threads], threads)
            if workload["name"].startswith("sgemm") and "best_seconds" in result:
                rate = workload["flops"] / result["best_seconds"] * 1e-9
                limits[threads]["sgemm_gflops"] = max(limits[threads].get("sgemm_gflops", 0), rate)
            lines.write(result)
            print(progress(result), flush=True)
    lines.write(line)                           # the product rate may be a better one now
    for runner in runners:
        runner.stop()
    oracle.peer.stop()


def main():
    options = arguments()
    if options.scratch:
        Path(options.scratch).mkdir(parents=True, exist_ok=True)
    scratch = tempfile.mkdtemp(prefix="peers-", dir=options.scratch)
    try:
        with open(Path(scratch) / "log", "w") as log:
            measure_all(options, scratch, log)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
