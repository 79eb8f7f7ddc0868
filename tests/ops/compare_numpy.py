#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_numpy.py RUN_CASES: the cases of cases.txt and edges.txt against NumPy.

run_cases --dump computes them and leaves inputs and results as NPY files; numpy_names.txt says what an operator is in
NumPy. A case of cases.txt that NumPy cannot compute is counted as skipped; of edges.txt both refuse, or neither. Exit
status 77 without NumPy.
"""
import os
import re
import subprocess
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import numpy_values as values  # noqa: E402

# Results that NumPy gives otherwise, as docs/semantics.md says: the start of a case, and why.
OTHERWISE = {
    "pow(x, y) | x=u8[20] y=u8[20]": "an integer to an unsigned power wraps",
    "mean(x) | x=f32[0]": "a mean needs an element",
    "mean(x, axis=0) | x=f32[0,": "a mean needs an element",
    "mean(x, axis=[0, 1]) | x=f32[0,3]": "a mean needs an element",
    "var(x, axis=0, correction=3) | x=f64[2,2]": "a correction of at least n gives NaN",
    "reshape(x, [-2, 6])": "only -1 is an open size",
    "roll(x, [1], [0, 1])": "as many shifts as axes",
    "roll(x, [1, 2], 0)": "as many shifts as axes",
    "pad(x, 1, mode=reflect) | x=f32[1]": "a mirrored or wrapped pad takes what the axis has once",
    "pad(x, 3, mode=reflect)": "a mirrored or wrapped pad takes what the axis has once",
    "pad(x, 4, mode=reflect)": "a mirrored or wrapped pad takes what the axis has once",
    "pad(x, 5, mode=reflect)": "a mirrored or wrapped pad takes what the axis has once",
    "pad(x, 4, mode=symmetric)": "a mirrored or wrapped pad takes what the axis has once",
    "pad(x, 7, mode=symmetric)": "a mirrored or wrapped pad takes what the axis has once",
    "pad(x, 4, mode=wrap)": "a mirrored or wrapped pad takes what the axis has once",
    "pad(x, 7, mode=wrap)": "a mirrored or wrapped pad takes what the axis has once",
    "diff(x, n=9)": "at most 8 differences",
}


def load(folder, line, case):
    inputs = {}
    for word in case.rsplit("|", 1)[1].split():
        name, value = word.split("=", 1)
        if "[" in value:
            inputs[name] = values.np.load(os.path.join(folder, f"{line}.{name}.npy"))
        else:
            inputs[name] = float(value) if re.search("[.en]", value) else int(value)
    results = []
    while os.path.exists(path := os.path.join(folder, f"{line}.={len(results)}.npy")):
        results.append(values.np.load(path))
    return inputs, results


def judge(text, space, inputs, results):
    """None: equal; a text: what differs. The f64 evaluation counts, too: it is the better one."""
    problem = None
    for given in (inputs, values.wide(inputs)):
        want = values.evaluate(text, space, given)
        if not results:
            return "refused, NumPy gives " + ", ".join(str(w.shape) for w in want)
        if len(want) != len(results):
            return f"{len(results)} results, NumPy has {len(want)}"
        problems = [values.difference(g, w, inputs) for g, w in zip(results, want)]
        problem = next((p for p in problems if p), None)
        if problem is None:
            return None
    return problem


class Skipped(Exception):
    """NumPy cannot compute it."""


def judge_line(edges, folder, line, case, space):
    text = case.rsplit("|", 1)[0].strip()
    inputs, results = load(folder, line, case)
    if not results and not edges:
        return "run_cases left no result"
    try:
        return judge(text, space, inputs, results)
    except (NameError, AttributeError) as error:
        raise Skipped(error) from error
    except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        if not edges:
            raise Skipped(error) from error
        return f"NumPy refuses: {error}" if results else None


def run(run_cases, name, space):
    path = os.path.join(HERE, name)
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([run_cases, path, "--dump", folder], check=False, stdout=subprocess.DEVNULL)
        with open(path, encoding="utf-8") as file:
            lines = [(i, s.strip()) for i, s in enumerate(file, 1) if s.strip() and not s.startswith("#")]
        for line, case in lines:
            try:
                problem = judge_line(name == "edges.txt", folder, line, case, space)
            except Skipped as error:
                print(f"skipped {name}:{line}: {case}: {error}")
                skipped += 1
                continue
            if problem and not any(case.startswith(start) for start in OTHERWISE):
                print(f"FAILED {name}:{line}: {case}: {problem}")
                failed += 1
            else:
                passed += 1
    print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
    return failed == 0 and passed > 0


def main():
    if values.np is None:
        print("skipped: NumPy is not installed")
        return 77
    warnings.simplefilter("ignore")
    space = values.names(os.path.join(HERE, "numpy_names.txt"))
    good = [run(sys.argv[1], name, space) for name in ("cases.txt", "edges.txt")]
    return 0 if all(good) else 1


sys.exit(main())
