#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_numpy.py RUN_CASES: the cases of cases.txt against NumPy.

run_cases --dump computes them and leaves inputs and results as NPY files; numpy_names.txt says what an operator is in
NumPy. A case whose operators NumPy does not have is counted as skipped. Exit status 77 without NumPy.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import numpy_values as values  # noqa: E402

# Results that NumPy gives otherwise, as docs/semantics.md says.
OTHERWISE = {
    "pow(x, y) | x=u8[20] y=u8[20]",
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
        if len(want) != len(results):
            return f"{len(results)} results, NumPy has {len(want)}"
        problems = [values.difference(g, w, inputs) for g, w in zip(results, want)]
        problem = next((p for p in problems if p), None)
        if problem is None:
            return None
    return problem


def main():
    if values.np is None:
        print("skipped: NumPy is not installed")
        return 77
    space = values.names(os.path.join(HERE, "numpy_names.txt"))
    cases = os.path.join(HERE, "cases.txt")
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], cases, "--dump", folder], check=False, stdout=subprocess.DEVNULL)
        with open(cases, encoding="utf-8") as file:
            lines = [(i, s.strip()) for i, s in enumerate(file, 1) if s.strip() and not s.startswith("#")]
        for line, case in lines:
            text = case.rsplit("|", 1)[0].strip()
            try:
                inputs, results = load(folder, line, case)
                problem = judge(text, space, inputs, results)
            except FileNotFoundError:
                problem = "run_cases left no result"
            except (NameError, TypeError, ValueError, AttributeError, IndexError) as error:
                print(f"skipped line {line}: {text}: {error}")
                skipped += 1
                continue
            if problem and case not in OTHERWISE:
                print(f"FAILED line {line}: {case}: {problem}")
                failed += 1
            else:
                passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed == 0 else 0


sys.exit(main())
