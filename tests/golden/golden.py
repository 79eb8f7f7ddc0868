# SPDX-License-Identifier: Apache-2.0
"""Kernel programs of fixed texts, compared with kernels.txt: what lowering makes of a graph changes only on purpose.

usage: golden.py PPTO kernels.txt [--update]

A case is a line `== TEXT BINDING...`, words as in a shell, and behind it what `ppto explain --stage kernel` prints for
it. The text depends on neither machine, instruction set nor number of threads. --update writes what is printed now;
read the difference before it is committed.
"""
import difflib
import os
import shlex
import subprocess
import sys


def read(path):
    """The lines before the first case, and the cases: (command, text)."""
    head, cases = [], []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("== "):
                cases.append((line[3:].rstrip("\n"), []))
            else:
                (cases[-1][1] if cases else head).append(line)
    return head, [(command, "".join(text)) for command, text in cases]


def explain(ppto, command):
    words = [ppto, "explain", "--stage", "kernel", *shlex.split(command)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PPTO_")}
    run = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60, check=False)
    return run.stdout if run.returncode == 0 else f"exit {run.returncode}\n{run.stderr}"


def write(path, head, cases):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.writelines(head)
        for command, text in cases:
            file.write(f"== {command}\n{text}")
    os.replace(path + ".new", path)


def main(arguments):
    ppto, path = arguments[:2]
    head, cases = read(path)
    now = [(command, explain(ppto, command)) for command, _ in cases]
    if "--update" in arguments:
        write(path, head, now)
        return 0
    print(f"1..{len(cases)}")
    failed = 0
    for number, ((command, want), (_, got)) in enumerate(zip(cases, now), 1):
        print(f"{'ok' if want == got else 'not ok'} {number} - {command}".replace("#", ""))
        failed += want != got
        for line in difflib.unified_diff(want.splitlines(), got.splitlines(), "golden", "now", lineterm="", n=2):
            print(f"# {line}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
