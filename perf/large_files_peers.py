#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The chains of large_files.py as one would write them without ppto: large_files_peers.py PEER CHAIN SOURCE RESULT.

numpy: a loop over blocks of a mapped file, in place where it can be, means and deviations combined block by block
(Chan, Golub, LeVeque 1979); dask: dask.array over the same blocks, with threads; numexpr: the whole expression at once.
"""

import sys

import numpy as np

ROWS = 8192  # of 1024 columns of f32: 32 MiB a block


class Mapped:
    """A mapped array that dask does not take for one of NumPy: it would copy all of it first."""

    def __init__(self, values):
        self.values, self.shape, self.dtype, self.ndim = values, values.shape, values.dtype, values.ndim

    def __getitem__(self, index):
        return self.values[index]


def blocks(x):
    for start in range(0, len(x), ROWS):
        yield slice(start, min(start + ROWS, len(x)))


def mean_numpy(x, _):
    total = np.zeros(x.shape[1])
    for rows in blocks(x):
        total += x[rows].sum(axis=0, dtype=np.float64)
    return (total / len(x)).astype(x.dtype)


def std_numpy(x, _):
    n, mean, squares = 0, np.zeros(x.shape[1]), np.zeros(x.shape[1])
    for rows in blocks(x):
        k, m = rows.stop - rows.start, x[rows].mean(axis=0)
        delta = m - mean
        squares += x[rows].var(axis=0) * k + delta * delta * (n * k / (n + k))
        mean, n = mean + delta * (k / (n + k)), n + k
    return np.sqrt(squares / n).astype(x.dtype)


def softmax_numpy(x, out):
    for rows in blocks(x):
        y = x[rows] - x[rows].max(axis=1, keepdims=True)
        np.exp(y, out=y)
        np.divide(y, y.sum(axis=1, keepdims=True), out=out[rows])


def chain6_numpy(x, out):
    for rows in blocks(x):
        y = np.sin(x[rows])
        y *= 2
        y += 1
        np.abs(y, out=y)
        np.negative(y, out=y)
        np.exp(y, out=y)
        np.divide(y, 3, out=out[rows])


def lazy(x):
    import dask.array
    return dask.array.from_array(Mapped(x), chunks=(ROWS, -1), name=False)  # with a name it hashes the whole file


def mean_dask(x, _):
    return lazy(x).mean(axis=0).compute()


def std_dask(x, _):
    return lazy(x).std(axis=0).compute()


def softmax_dask(x, out):
    import dask.array
    y = lazy(x)
    y = dask.array.exp(y - y.max(axis=1, keepdims=True))
    dask.array.store(y / y.sum(axis=1, keepdims=True), out, lock=False)


def chain6_dask(x, out):
    import dask.array
    dask.array.store(dask.array.exp(-abs(dask.array.sin(lazy(x)) * 2 + 1)) / 3, out, lock=False)


def chain6_numexpr(x, out):
    import numexpr
    values = {"x": x, "one": np.float32(1), "two": np.float32(2), "three": np.float32(3)}
    numexpr.evaluate("exp(-abs(sin(x) * two + one)) / three", local_dict=values, out=out)


def main(peer, chain, source, result):
    x = np.load(source, mmap_mode="r")
    large = chain in ("softmax", "chain6")
    out = np.lib.format.open_memmap(result, mode="w+", dtype=x.dtype, shape=x.shape) if large else None
    value = globals()[f"{chain}_{peer}"](x, out)
    if not large:
        np.save(result, value)


if __name__ == "__main__":
    main(*sys.argv[1:])
