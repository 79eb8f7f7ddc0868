# SPDX-License-Identifier: Apache-2.0
"""One peer in its own process: answers the requests of `peers.py`, one JSON line each.

    python peer_worker.py PEER THREADS          requests on stdin, answers on file descriptor 3

Requests
    {"do": "hello"}                                         -> versions
    {"do": "reference", "workload": W, "path": P}           -> writes the float64 result of the numpy text to P, and
                                                               the inputs as NAME.npy beside it
    {"do": "compare", "files": F, "path": P}                -> error of results that are files
    {"do": "prepare", "workload": W, "path": P}             -> compile_seconds, first_seconds, error, count
    {"do": "sample"}                                        -> seconds per call, disturbed (waiting part)
    {"do": "latency", "workload": W}                        -> the figures of kind first, shapes or record
    {"do": "drop"}                                          -> forgets the prepared workload

The parent sets thread counts, CPU affinity and the allocator by environment before it starts a worker.
"""

import gc
import itertools
import json
import math
import os
import random
import re
import statistics
import sys
import textwrap
import time

import numpy as np

SAMPLE_SECONDS = 0.03
SLOW_SECONDS = 2.0              # a first call above this is not repeated to warm up
SHAPES_SEED = 7                 # of the chain that is called with many lengths
FUNCTION_NUMBER = itertools.count()
DTYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}


# ------------------------------------------------------------------------------------------------ inputs

def parse_spec(spec):
    """'f32[4,5]:uniform(-1,1)' -> dtype, shape, filler name, filler arguments."""
    match = re.fullmatch(r"(\w+)\[([\d,]*)\]:(\w+)(?:\(([^)]*)\))?", spec)
    if not match:
        raise ValueError(f"bad input spec {spec!r}")
    dtype, shape, filler, arguments = match.groups()
    shape = tuple(int(n) for n in shape.split(",") if n)
    return DTYPES[dtype], shape, filler, [float(a) for a in (arguments or "").split(",") if a]


def fill(spec, seed):
    dtype, shape, filler, arguments = parse_spec(spec)
    generator = np.random.default_rng(seed)
    if filler == "integers":
        return generator.integers(int(arguments[0]), int(arguments[1]), shape).astype(dtype)
    if filler in ("zeros", "ones"):
        return np.full(shape, filler == "ones", dtype)
    if filler == "normal":
        return generator.standard_normal(shape, dtype=dtype)
    low, high = arguments
    values = generator.random(shape, dtype=dtype)
    values *= dtype(high - low)
    values += dtype(low)
    return values


def make_inputs(workload):
    """The same numbers in every process: the seed is the position of the input."""
    return {name: fill(spec, seed) for seed, (name, spec) in enumerate(workload["inputs"].items())}


def make_function(text, parameters, namespace):
    """A Python function from an expression or from a body that contains `return`.

    Each gets a file name of its own: torch.compile remembers shapes by file name and line, and would compile the
    next text for unknown sizes.
    """
    text = text.strip()
    body = text if re.search(r"^\s*return\b", text, re.M) else "return " + text
    scope = dict(namespace)
    source = f"def workload({', '.join(parameters)}):\n{textwrap.indent(body, '    ')}"
    exec(compile(source, f"<workload {next(FUNCTION_NUMBER)}>", "exec"), scope)
    return scope["workload"]


# ------------------------------------------------------------------------------------------------- peers

class NumpyPeer:
    """Also the base of the others: what a peer must be able to do."""

    keys = ["numpy"]                            # which text of a workload it runs, first found
    lazy_compile = False                        # whether the first call compiles

    def __init__(self, threads):
        from scipy import special
        self.threads = threads
        self.names = {"np": np, "special": special, "math": math, "out": None, **DTYPES}

    def versions(self):
        import scipy
        import threadpoolctl
        blas = [f"{p['internal_api']} {p['version']} {p.get('architecture', '')}"
                for p in threadpoolctl.threadpool_info() if p["user_api"] == "blas"]
        return {"numpy": np.__version__, "scipy": scipy.__version__, "blas": ", ".join(sorted(set(blas)))}

    def text(self, workload):
        return next((workload[key] for key in self.keys if key in workload), None)

    def array(self, values):
        return values

    def size(self, elements):
        """Told before `function`: the number of input elements."""

    def function(self, text, parameters):
        return make_function(text, parameters, self.names)

    def caller(self, function, arguments):
        """A function of no argument that runs to completion."""
        if "out" not in getattr(getattr(function, "__code__", None), "co_names", ()):
            return lambda: function(*arguments)

        def call():
            function.__globals__["out"] = result = function(*arguments)
            return result
        return call

    def to_numpy(self, value):
        return np.asarray(value)

    def compilations(self, function):
        """How often the last `function` was compiled (or traced), None where nothing is."""
        return None

    def record(self, nodes):
        """Seconds to record `nodes` operators, how many it were, a remark; None where nothing is recorded."""
        return None


class NumexprPeer(NumpyPeer):
    keys = ["numexpr"]

    def __init__(self, threads):
        super().__init__(threads)
        import numexpr
        numexpr.set_num_threads(threads)
        self.names["ne"] = numexpr

    def versions(self):
        import numexpr
        return {"numexpr": numexpr.__version__, "numexpr vml": bool(numexpr.use_vml)}

    def function(self, text, parameters):
        numexpr = self.names["ne"]
        if text.startswith("#plain "):          # a generated chain: the expression itself
            expression = text.removeprefix("#plain ")
            return lambda *values: numexpr.evaluate(expression, local_dict=dict(zip(parameters, values)))
        return super().function(text, parameters)

    def compilations(self, function):
        return 1


class NumbaPeer(NumpyPeer):
    keys = ["numba"]
    lazy_compile = True

    def __init__(self, threads):
        super().__init__(threads)
        import warnings
        import numba
        warnings.simplefilter("ignore", numba.NumbaPerformanceWarning)
        self.numba = numba
        self.parallel = False
        self.names["prange"] = numba.prange

    def size(self, elements):
        """Small work is faster without the thread pool."""
        self.parallel = self.threads > 1 and elements >= 16384

    def versions(self):
        import llvmlite
        return {"numba": self.numba.__version__, "llvmlite": llvmlite.__version__}

    def function(self, text, parameters):
        plain = super().function(text, parameters)
        return self.numba.njit(plain, parallel=self.parallel, fastmath=True, error_model="numpy")

    def compilations(self, function):
        return len(function.signatures)


class TorchPeer(NumpyPeer):
    keys = ["torch"]

    def __init__(self, threads):
        super().__init__(threads)
        import torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch = torch
        self.names.update(torch=torch, F=torch.nn.functional)

    def versions(self):
        build = self.torch.__config__.show()
        mkl = re.search(r"Math Kernel Library Version (\S+)", build)
        dnn = re.search(r"MKL-DNN v(\S+)", build)
        return {"torch": self.torch.__version__, "torch mkl": mkl and mkl.group(1),
                "torch onednn": dnn and dnn.group(1), "torch simd": self.torch.backends.cpu.get_cpu_capability()}

    def array(self, values):
        return self.torch.from_numpy(values.copy())

    def to_numpy(self, value):
        return value.numpy()


class TorchCompilePeer(TorchPeer):
    keys = ["torch-compile", "torch"]
    lazy_compile = True

    def __init__(self, threads):
        super().__init__(threads)
        import torch._inductor.config as config
        from torch._inductor.compile_fx import compile_fx
        config.compile_threads = 1
        self.compile_fx = compile_fx
        self.graphs = 0

    def function(self, text, parameters):
        self.graphs = 0

        def inductor(graph, inputs):
            self.graphs += 1
            return self.compile_fx(graph, inputs)
        return self.torch.compile(super().function(text, parameters), backend=inductor)

    def compilations(self, function):
        return self.graphs

    def record(self, nodes):
        """Tracing to an FX graph; compiling 10,000 nodes takes minutes."""
        torch = self.torch

        def chain(x):
            for _ in range(nodes // 2):
                x = x * 1.0001
                x = x + 0.5
            return x
        start = time.perf_counter()
        torch.fx.symbolic_trace(chain)
        return time.perf_counter() - start, nodes, "torch.fx.symbolic_trace only"


class JaxPeer(NumpyPeer):
    keys = ["jax"]
    lazy_compile = True

    def __init__(self, threads):
        super().__init__(threads)
        import jax
        jax.config.update("jax_enable_x64", True)
        self.jax = jax
        self.names.update(jax=jax, jnp=jax.numpy, lax=jax.lax)

    def versions(self):
        import jaxlib
        return {"jax": self.jax.__version__, "jaxlib": jaxlib.__version__}

    def array(self, values):
        return self.jax.block_until_ready(self.jax.device_put(values.copy()))

    def function(self, text, parameters):
        return self.jax.jit(super().function(text, parameters))

    def caller(self, function, arguments):
        wait = self.jax.block_until_ready
        return lambda: wait(function(*arguments))

    def compilations(self, function):
        return function._cache_size()

    def record(self, nodes):
        jax = self.jax

        def chain(x):
            for _ in range(nodes // 2):
                x = x * 1.0001
                x = x + 0.5
            return x
        x = self.array(np.ones(64, np.float32))
        start = time.perf_counter()
        traced = jax.jit(chain).trace(x)
        recorded = time.perf_counter() - start
        lowered = traced.lower()
        compile_start = time.perf_counter()
        lowered.compile()
        end = time.perf_counter()
        return recorded, nodes, (f"trace only; lower {compile_start - start - recorded:.2f} s, "
                                 f"compile {end - compile_start:.2f} s more")


class MlxPeer(NumpyPeer):
    keys = ["mlx"]
    lazy_compile = True

    def __init__(self, threads):
        super().__init__(threads)
        import mlx.core
        import mlx.nn
        mlx.core.set_default_device(mlx.core.cpu)
        self.mx = mlx.core
        self.names.update(mx=mlx.core, nn=mlx.nn)
        self.traces = 0

    def versions(self):
        return {"mlx": self.mx.__version__}

    def array(self, values):
        result = self.mx.array(values, dtype=self.mx.float64) if values.dtype == np.float64 else self.mx.array(values)
        self.mx.eval(result)
        return result

    def function(self, text, parameters):
        plain = super().function(text, parameters)
        self.traces = 0

        def counted(*arguments):
            self.traces += 1
            return plain(*arguments)
        return self.mx.compile(counted)

    def caller(self, function, arguments):
        def call():
            result = function(*arguments)
            self.mx.eval(result)
            return result
        return call

    def compilations(self, function):
        return self.traces

    def record(self, nodes):
        mx = self.mx
        x = self.array(np.ones(64, np.float32))
        start = time.perf_counter()
        for _ in range(nodes // 2):
            x = x * 1.0001
            x = x + 0.5
        recorded = time.perf_counter() - start
        mx.eval(x)
        return recorded, nodes, f"lazy graph; evaluating it {time.perf_counter() - start - recorded:.3f} s more"


class DaskPeer(NumpyPeer):
    """Only records and reads files: on arrays in memory it is NumPy with a scheduler."""

    keys = []

    def versions(self):
        import dask
        return {"dask": dask.__version__}

    def record(self, nodes):
        import dask.array
        nodes = min(nodes, 1000)
        x = dask.array.from_array(np.ones(64, np.float32), chunks=64)
        start = time.perf_counter()
        for _ in range(nodes // 2):
            x = x * 1.0001
            x = x + 0.5
        return time.perf_counter() - start, nodes, f"lazy graph of {nodes} nodes only: the cost per node grows with it"


PEERS = {"numpy": NumpyPeer, "torch": TorchPeer, "torch-compile": TorchCompilePeer, "jax": JaxPeer,
         "numexpr": NumexprPeer, "numba": NumbaPeer, "mlx": MlxPeer, "dask": DaskPeer}


# ------------------------------------------------------------------------------------- steady measurement

def as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def write_reference(workload, path):
    """The NumPy text on inputs widened to float64; the inputs as files beside it."""
    inputs = make_inputs(workload)
    for name, values in inputs.items():
        np.save(os.path.join(os.path.dirname(path), f"{name}.npy"), values)
    inputs = {name: values.astype(np.float64) if values.dtype.kind == "f" else values
              for name, values in inputs.items()}
    peer = NumpyPeer(1)
    results = as_tuple(peer.function(workload["numpy"], list(inputs))(*inputs.values()))
    np.savez(path, *results)
    return {}


def relative_error(results, path):
    """Largest max|got - ref| / max|ref| over the results; infinite where shapes differ."""
    worst = 0.0
    with np.load(path) as reference:
        if len(results) != len(reference.files):
            return math.inf
        for got, name in zip(results, reference.files):
            want = reference[name]
            if got.shape != want.shape:
                return math.inf
            scale = float(np.max(np.abs(want))) or 1.0
            worst = max(worst, float(np.max(np.abs(got.astype(np.float64) - want))) / scale)
    return worst


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def run_delay():
    """Seconds that the threads of this process were ready and had to wait for a CPU (Linux schedstat)."""
    total = 0
    for task in os.scandir("/proc/self/task"):
        try:
            with open(f"{task.path}/schedstat") as file:
                total += int(file.read().split()[1])
        except OSError:
            pass                                # the thread ended
    return total * 1e-9


class Worker:
    def __init__(self, peer):
        self.peer = peer
        self.call = None
        self.count = 1

    def prepare(self, workload, path):
        peer = self.peer
        text = peer.text(workload)
        if text is None:
            return {"skipped": "no text for this peer"}
        inputs = make_inputs(workload)
        arguments = [peer.array(values) for values in inputs.values()]
        peer.size(sum(values.size for values in inputs.values()))
        function = peer.function(text, list(inputs))
        del inputs
        call = peer.caller(function, arguments)
        start = time.perf_counter()
        result = call()
        first = time.perf_counter() - start
        error = relative_error([np.asarray(peer.to_numpy(r)) for r in as_tuple(result)], path)
        del result
        if first < SLOW_SECONDS:
            call()
        second = timed(call)
        if second < SAMPLE_SECONDS:             # one call may have been disturbed
            second = min(second, *(timed(call) for _ in range(4)))
        self.call = call
        self.count = max(1, min(100000, int(SAMPLE_SECONDS / second)))
        return {"compile_seconds": max(0.0, first - second) if peer.lazy_compile else 0.0,
                "first_seconds": first, "error": error, "count": self.count}

    def sample(self):
        """Seconds per call, after one call that warms caches and output pages."""
        call, count = self.call, self.count
        call()
        gc.disable()
        waited = run_delay()
        start = time.perf_counter()
        for _ in range(count):
            call()
        seconds = time.perf_counter() - start
        waited = run_delay() - waited
        gc.enable()
        return {"seconds": seconds / count, "disturbed": waited / seconds}

    def drop(self):
        self.call = None
        gc.collect()
        return {}

    # ------------------------------------------------------------------------------------------- latency

    def latency(self, workload):
        return {"first": self.first, "shapes": self.shapes, "record": self.record}[workload["kind"]](workload)

    def chain_function(self, seed, ops):
        """A random chain of `ops` operators as this peer writes it."""
        text = random_chain(seed, ops)
        key = self.peer.keys[-1]
        prefix = {"torch": "torch.", "jax": "jnp.", "mlx": "mx.", "numexpr": "#plain "}.get(key, "np.")
        if key == "numexpr":
            text = prefix + text
        else:
            text = re.sub(r"\b(sqrt|abs|exp|sin)\b", prefix + r"\1", text)
        return self.peer.function(text, ["x", "y"])

    def first(self, workload):
        """Median time from the text of a new chain to its result; the first chain only warms the process."""
        if not self.peer.keys:
            return {"skipped": "no text for this peer"}
        values = [self.peer.array(v) for v in make_inputs(workload).values()]
        seconds = []
        for seed in range(6):
            start = time.perf_counter()
            self.peer.caller(self.chain_function(1000 + seed, workload["ops"]), values)()
            seconds.append(time.perf_counter() - start)
        return {"seconds": statistics.median(seconds[1:]), "min": min(seconds[1:]), "max": max(seconds[1:]),
                "note": f"the very first one in the process took {seconds[0]:.3f} s"}

    def shapes(self, workload):
        if not self.peer.keys:
            return {"skipped": "no text for this peer"}
        lengths = [1000 + 200*i for i in range(workload["shapes"])]
        pairs = [[self.peer.array(fill(f"f32[{n}]:uniform(0.1,1)", seed)) for seed in range(2)] for n in lengths]
        function = self.chain_function(SHAPES_SEED, workload["ops"])
        start = time.perf_counter()
        for pair in pairs:
            self.peer.caller(function, pair)()
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "compilations": self.peer.compilations(function)}

    def record(self, workload):
        sys.setrecursionlimit(100000)
        best = None
        for _ in range(3):
            outcome = self.peer.record(workload["nodes"])
            if outcome is None:
                return {"skipped": "records nothing"}
            if best is None or outcome[0] < best[0]:
                best = outcome
        seconds, nodes, remark = best
        return {"seconds": seconds, "ns_per_node": seconds / nodes * 1e9, "note": remark}


def random_chain(seed, ops):
    """An expression in x and y of `ops` operators; its constants make it unlike every other seed's."""
    choice = random.Random(seed)
    text, left = "x", ops
    while left:
        constant = f"{choice.uniform(0.1, 0.9):.6f}"
        kind = choice.randrange(6)
        if kind < 3:
            text = f"({text} {'+-*'[kind]} {choice.choice(['y', constant])})"
        elif kind == 3 and left >= 2:
            text, left = f"sqrt(abs({text}))", left - 1
        elif kind == 4:
            text = f"sin({text})"
        else:
            text = f"({text} + {constant})"
        left -= 1
    return text


def main():
    name, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(3, "w", buffering=1)
    worker = Worker(PEERS[name](threads))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            match request["do"]:
                case "hello":
                    answer = {"versions": worker.peer.versions()}
                case "reference":
                    answer = write_reference(request["workload"], request["path"])
                case "compare":
                    results = [np.load(file, mmap_mode="r") for file in request["files"]]
                    answer = {"error": relative_error(results, request["path"])}
                case "prepare":
                    answer = worker.prepare(request["workload"], request["path"])
                case "sample":
                    answer = worker.sample()
                case "latency":
                    answer = worker.latency(request["workload"])
                case "drop":
                    answer = worker.drop()
        except Exception as problem:            # a peer that fails one workload goes on with the next
            answer = {"failed": f"{type(problem).__name__}: {problem}"[:300]}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
