# SPDX-License-Identifier: Apache-2.0
"""C text for the lint scripts: walking the source folders, blanking comments and strings, collecting literals.

Everything keeps line numbers, so that a finding can say file:line. This is no C parser: it knows comments, string
and character literals and line ends, which is all the laws need."""

import os
import re

LIBRARY = ("src/base", "src/ops", "src/kernel", "src/lang", "src/files", "src/runtime", "graph", "memory", "scheduler",
           "devices")
OTHERS = ("include/ppto", "src/cli", "tests", "perf", "examples")
SUFFIXES = (".c", ".h", ".cpp", ".def")

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)


def sources(root, folders):
    """Paths below root (with /) of the C and C++ files in the folders, sorted."""
    found = []
    for folder in folders:
        for base, names, files in os.walk(os.path.join(root, folder)):
            names[:] = sorted(n for n in names if not n.startswith((".", "build")))
            found += [os.path.relpath(os.path.join(base, f), root).replace(os.sep, "/")
                      for f in files if f.endswith(SUFFIXES)]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def blank(text, strings=True):
    """The text with comments (and the insides of literals) replaced by spaces; line ends stay."""
    def space(match):
        token = match.group()
        if token[0] in "\"'":
            return token[0] + " " * (len(token) - 2) + token[0] if strings else token
        return re.sub(r"[^\n]", " ", token)
    return TOKEN.sub(space, text)


def literals(text):
    """(line, contents) of each string literal outside comments and #include lines."""
    for match in TOKEN.finditer(text):
        token = match.group()
        start = text.rfind("\n", 0, match.start()) + 1
        if token[0] == '"' and not re.match(r"\s*#\s*include", text[start:match.start()]):
            yield text.count("\n", 0, match.start()) + 1, token[1:-1]
