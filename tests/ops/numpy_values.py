# SPDX-License-Identifier: Apache-2.0
"""Expressions of the operator language evaluated with NumPy: the names of numpy_names.txt, and a comparison.

The language's expressions are legal Python except for a few words (true, none, f32, edge); a namespace gives those.
NumPy promotes otherwise now and then (i32 / i32 is f64), so values are compared, not dtypes: a float result must lie
within a bound that follows from the coarsest float dtype around, every other result must be equal.
"""
import builtins
import math

try:
    import numpy as np
except ImportError:
    np = None

DTYPES = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8",
          "u16": "uint16", "u32": "uint32", "u64": "uint64", "f32": "float32", "f64": "float64"}
WORDS = "constant edge reflect symmetric wrap xy ij".split()
REDUCTIONS = "sum prod max min ptp mean any all nansum nanmean nanmax nanmin".split()
LISTED_AXES = "std var count_nonzero norm roll".split()


class Shim:
    """NumPy with what older versions lack."""

    OLDER = {"bitwise_invert": "invert", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}

    def __getattr__(self, name):
        return getattr(np, name) if hasattr(np, name) else getattr(np, self.OLDER.get(name, name))

    @staticmethod
    def _scan(function, x, axis, dtype, include_initial, unit):
        x = np.asarray(x)
        axis = 0 if axis is None else axis
        if dtype is None and x.dtype.kind in "biu":
            dtype = np.uint64 if x.dtype.kind == "u" else np.int64
        y = function(x, axis=axis, dtype=dtype)
        if include_initial:
            shape = [1 if i == axis % y.ndim else n for i, n in enumerate(y.shape)]
            y = np.concatenate([np.full(shape, unit, y.dtype), y], axis)
        return y

    def cumulative_sum(self, x, axis=None, dtype=None, include_initial=False):
        return self._scan(np.cumsum, x, axis, dtype, include_initial, 0)

    def cumulative_prod(self, x, axis=None, dtype=None, include_initial=False):
        return self._scan(np.cumprod, x, axis, dtype, include_initial, 1)

    class _Linalg:
        def __getattr__(self, name):
            return getattr(np.linalg, name)

        @staticmethod
        def vector_norm(x, axis=None, ord=2, keepdims=False):
            a = np.abs(x)
            axis = tuple(range(a.ndim)) if axis is None else axis
            if ord == np.inf:
                return a.max(axis, keepdims=keepdims)
            if ord == -np.inf:
                return a.min(axis, keepdims=keepdims)
            if ord == 0:
                return np.count_nonzero(a, axis, keepdims=keepdims).astype(a.dtype)
            return (a ** ord).sum(axis, keepdims=keepdims) ** (1.0 / ord)

    linalg = _Linalg()


def _axis_of(axis):
    if isinstance(axis, list):
        return tuple(axis)
    return None if callable(axis) or isinstance(axis, str) else axis


def _moments_of(x, axis, keepdims):
    axis = _axis_of(axis)
    mean = np.mean(x, axis, keepdims=True)
    m2 = np.sum((x - mean) ** 2, axis, keepdims=keepdims)
    n = np.count_nonzero(np.ones_like(x), axis, keepdims=keepdims)
    return [n, np.mean(x, axis, keepdims=keepdims), m2]


def _with_tuples(function):
    def call(*args, **named):
        args = [_axis_of(a) if i > 0 and (isinstance(a, list) or callable(a)) else a for i, a in enumerate(args)]
        named = {k: _axis_of(v) if isinstance(v, list) or callable(v) else v for k, v in named.items()}
        return function(*args, **named)
    return call


def _reduction(function):
    def call(x, axis=None, keepdims=False, **named):
        return function(x, axis=_axis_of(axis), keepdims=keepdims, **named)
    return call


def _by_elements(function):
    def call(x):
        return np.vectorize(function, otypes=[np.float64])(x).astype(x.dtype)
    return call


def names(path):
    """The namespace of numpy_names.txt."""
    space = {"np": Shim(), "axis_of": _axis_of, "moments_of": _moments_of, "__builtins__": builtins}
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#") or "=" not in line:
                continue
            name, text = line.split("=", 1)
            try:
                function = eval(text.strip(), space)
            except AttributeError:
                continue
            name = name.strip()
            found[name] = (_reduction(function) if name in REDUCTIONS
                           else _with_tuples(function) if name in LISTED_AXES else function)
    found["erf"] = _by_elements(math.erf)
    found["erfc"] = _by_elements(math.erfc)
    found["gelu"] = lambda x: 0.5 * x * (1 + found["erf"](x * 0.70710678118654752))
    found.update({name: np.dtype(numpy).type for name, numpy in DTYPES.items()})
    found.update({word: word for word in WORDS})
    found.update({"true": True, "false": False, "none": None, "inf": np.inf, "nan": np.nan, "pi": np.pi,
                  "__builtins__": {}})
    return found


def evaluate(text, space, inputs):
    """The results of an expression, a list of arrays."""
    with np.errstate(all="ignore"):
        value = eval(text, {**space, **inputs})
    if isinstance(value, (list, tuple)):
        return [np.asarray(v) for v in value]
    return [np.asarray(value)]


def wide(inputs):
    return {k: v.astype(np.float64) if getattr(v, "dtype", None) == np.float32 else v for k, v in inputs.items()}


def difference(got, want, inputs, factor=64.0):
    """What is wrong with `got`, or None."""
    if got.shape != want.shape:
        return f"shape {got.shape}, NumPy has {want.shape}"
    if got.size == 0:
        return None
    if got.dtype.kind != "f":
        if want.dtype.kind == "f":  # older versions round integers as floats
            equal = got.astype(np.float64) == want
        else:
            equal = got == want.astype(got.dtype)
    else:
        single = any(getattr(v, "dtype", None) == np.float32 for v in [got, *inputs.values()])
        single = single or not any(getattr(v, "dtype", None) == np.float64 for v in inputs.values())
        eps = 2.0 ** -23 if single else 2.0 ** -52
        a, b = got.astype(np.float64), want.astype(np.float64)
        if got.dtype == np.float32:
            with np.errstate(all="ignore"):
                b = b.astype(np.float32).astype(np.float64)
        scale = 1.0
        for v in [*inputs.values(), b]:
            v = np.abs(np.asarray(v, dtype=np.float64))
            v = v[np.isfinite(v)]
            scale = max(scale, v.max()) if v.size else scale
        with np.errstate(all="ignore"):
            near = np.abs(a - b) <= factor * eps * (np.abs(b) + scale)
        equal = (a == b) | near | (np.isnan(a) & np.isnan(b))
    if equal.all():
        return None
    at = int(np.argmin(equal.reshape(-1)))
    return f"{int((~equal).sum())} elements differ, first at {at}: {got.reshape(-1)[at]}, NumPy {want.reshape(-1)[at]}"
