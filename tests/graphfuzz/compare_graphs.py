#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_graphs.py FUZZ_GRAPHS [GRAPHS [SEED]]: random graphs against NumPy, statement by statement.

fuzz_graphs --dump computes whole graphs and leaves the value of every statement. Each statement is then evaluated with
NumPy from the values that ppto gave its operands, so that the bound of one operator judges it and errors do not add up.
Statements that NumPy defines otherwise (integer division by zero, casts that saturate, …) are judged where it agrees.
Exit status 77 without NumPy.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OPS = os.path.join(os.path.dirname(HERE), "ops")
sys.path.insert(0, OPS)
import numpy_values as values  # noqa: E402

# Not judged: NumPy has no such rule, or the value may leave every bound (poles, overflow of intermediate values).
OTHERWISE = re.compile(r"\b(astype|remainder|fmod|pow|nextafter|bitwise|logsumexp|var|std|normalize|layer_norm|norm|"
                       r"softmax|log_softmax|l2_norm|tan|prod|cumulative_prod|nan_to_num|signbit|copysign|argmax|argmin|"
                       r"rsqrt|lgamma)\b|//|%|<<|>>|\*\*")


def extreme(inputs):
    """Values near the ends of their dtype: the order of a sum, saturation and promotion show."""
    np = values.np
    for v in inputs.values():
        v = np.asarray(v)
        if v.dtype.kind in "iu" and v.size and max(abs(int(v.min())), abs(int(v.max()))) > 10 ** 6:
            return True
        if v.dtype.kind == "f" and not (np.abs(v) < 1e15).all():
            return True
    return False


def judge(line, seed, folder, numbers, space):
    """("passed" | "skipped" | "failed", text)"""
    name, text = line.split(" = ", 1)
    if OTHERWISE.search(text):
        return "skipped", ""
    inputs = {}
    for operand in set(re.findall(r"\b[xvn]\d+\b", text)):
        if operand in numbers:
            inputs[operand] = numbers[operand]
            continue
        inputs[operand] = values.np.load(os.path.join(folder, f"{seed}.{operand}.npy"))
    result = values.np.load(os.path.join(folder, f"{seed}.{name}.npy"))
    if extreme(inputs):
        return "skipped", ""
    problem = "not evaluated"
    for given in (inputs, values.wide(inputs)):
        try:
            want = values.evaluate(text, space, given)
        except (NameError, TypeError, ValueError, AttributeError, IndexError, values.np.AxisError) as error:
            return "skipped", f"{text}: {error}"
        if extreme({"": want[0]}):
            return "skipped", ""
        factor = 64.0 + max([0, *(v.size for v in map(values.np.asarray, inputs.values()))])
        problem = values.difference(result, want[0], inputs, factor)
        if problem is None:
            return "passed", ""
    return "failed", f"seed {seed}: {line}: {problem}"


def main():
    if values.np is None:
        print("skipped: NumPy is not installed")
        return 77
    graphs = sys.argv[2] if len(sys.argv) > 2 else "400"
    start = sys.argv[3] if len(sys.argv) > 3 else "1"
    space = values.names(os.path.join(OPS, "numpy_names.txt"))
    count = {"passed": 0, "skipped": 0, "failed": 0}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.argv[1], "--graphs", graphs, "--seed", start, "--dump", folder]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, encoding="utf-8")
        seed, numbers = None, {}
        for line in done.stdout.splitlines():
            if line.startswith("# seed"):
                seed, numbers = line.split()[2], {}
            elif line.startswith("# n"):
                name, value = line[2:].split(" = ")
                value = value.split(",")[0]
                numbers[name] = float(value) if re.search("[.e]", value) else int(value)
            elif re.match(r"v\d+ = ", line):
                verdict, text = judge(line, seed, folder, numbers, space)
                count[verdict] += 1
                if verdict == "failed":
                    print("FAILED", text)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if done.returncode or count["failed"] or count["passed"] == 0 else 0


sys.exit(main())
