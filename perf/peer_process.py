# SPDX-License-Identifier: Apache-2.0
"""The processes that peers.py times: a worker per peer and number of threads, and ppto, a run per sample.

A worker (peer_worker.py) lives as long as the run; its environment sets the number of threads, the allocator and private
folders for compiled code, and it may use only as many CPUs as it has threads. ppto is what a user has: its command. Its
result is checked as every other: the inputs of the workers are given to `ppto run` as files.
"""

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PPTO_SECONDS = 0.03             # what the calls of one run of ppto should fill


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

    def run(self, command, timeout):
        """Its standard output, or None and what it complained of."""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                                  preexec_fn=lambda: bind(self.threads))
        except (OSError, subprocess.TimeoutExpired) as problem:
            return None, str(problem)[:300]
        if done.returncode != 0:
            return None, (done.stderr.strip().splitlines() or ["no message"])[0][:300]
        return done.stdout, ""

    def bench(self, workload, timeout, seen=None):
        """The figures of a run; seen: seconds of a call, when known."""
        repeat = 5 if not seen else max(5, min(2000, int(PPTO_SECONDS / seen)))
        output, problem = self.run([self.path, "bench", workload["ppto"].strip(),
                                    *(f"{name}={spec}" for name, spec in workload.get("inputs", {}).items()),
                                    "--threads", str(self.threads), "--repeat", str(repeat), "--json"], timeout)
        return {"failed": problem} if output is None else json.loads(output)

    def results(self, workload, folder):
        """Runs the text on the files NAME.npy of `folder`: the files of its results, or what went wrong."""
        text = workload["ppto"].strip()
        names = output_names(text)
        files = [str(Path(folder) / f"result-{i}.npy") for i in range(len(names) or 1)]
        to = [part for name, file in zip(names, files) for part in ("-o", f"{name}={file}")] or ["-o", files[0]]
        output, problem = self.run([self.path, "run", text, *(f"{n}={folder}/{n}.npy" for n in workload["inputs"]), *to,
                                    "--threads", str(self.threads)], 120)
        return ([], problem) if output is None else (files, "")

    def latency(self, workload, chain):
        """What is measured in a process that is warm, by perf/micro/latency.c. chain: the text of kind shapes."""
        kind = workload["kind"]
        wanted = {"first": "first-text", "record": "record", "shapes": "shapes"}[kind]
        output, problem = self.run([str(Path(self.path).parent / "perf/latency"), str(self.threads), chain], 120)
        if output is None:
            return {"failed": problem}
        median = {f["benchmark"]: f["median"] for f in map(json.loads, output.splitlines())}.get(wanted)
        if median is None:
            return {"failed": f"no {wanted}"}
        match kind:
            case "first":
                return {"seconds": median * 1e-6}
            case "shapes":
                return {"seconds": median * 1e-3, "compilations": 1}    # latency fails when a kernel is made again
        return {"seconds": median * 1e-5, "ns_per_node": median}


def output_names(text):
    """['m', 's'] of `output m = mean(x, axis=0), s = std(x)`; nothing for an expression."""
    outputs = " ".join(re.findall(r"^output (.*)", text, re.M))
    while (plain := re.sub(r"[(\[][^()\[\]]*[)\]]", "", outputs)) != outputs:
        outputs = plain
    return re.findall(r"(\w+)\s*=(?!=)", outputs)
