#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No C file knows a composed operator by name: what `op NAME` in library.ppto defines is data to the library.

usage: names.py [ROOT]      prints findings as file:line: text; exit 1 when there is one

A name counts where it is a whole string literal. names_allowed.txt lists, one a line, literals that are needed for
another reason ("sum" as the word of an option, say), with the file after a space: `sum src/lang/parser.c`."""

import os
import re
import sys

from ctext import literals, read, sources

FOLDERS = ("src", "graph", "devices")


def operators(root):
    path = os.path.join(root, "src/ops/library.ppto")
    if not os.path.isfile(path):
        return set()
    return set(re.findall(r"^\s*op\s+([A-Za-z_]\w*)", read(root, "src/ops/library.ppto"), re.M))


def exceptions(root):
    path = os.path.join(root, "tests/layers/names_allowed.txt")
    if not os.path.isfile(path):
        return set()
    lines = (line.split("#")[0].split() for line in read(root, "tests/layers/names_allowed.txt").splitlines())
    return {tuple(line) for line in lines if line}


def check(root):
    names, allowed = operators(root), exceptions(root)
    findings = []
    for path in sources(root, FOLDERS):
        for line, text in literals(read(root, path)):
            if text in names and (text, path) not in allowed:
                findings.append(f"{path}:{line}: \"{text}\" is an operator of library.ppto: no C file names it")
    return findings


def main(arguments):
    root = arguments[1] if len(arguments) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    findings = check(os.path.abspath(root))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
