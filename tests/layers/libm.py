#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The built library calls nothing of libm but fma: its results do not depend on the C library of the machine.

usage: libm.py LIBRARY NM     exit 1 with the names found; 77 (skipped) where libm cannot be listed"""

import ctypes.util
import os
import subprocess
import sys

ALLOWED = {"fma"}  # exact by definition; of f64, where the machine may have none


def names(nm, path, which):
    listing = subprocess.run([nm, "-D", "--format=posix", which, path], capture_output=True, text=True, check=True)
    return {line.split()[0].split("@")[0] for line in listing.stdout.splitlines() if line.split()}


def libm():
    """The path of the libm that this process can load."""
    name = ctypes.util.find_library("m")
    if name is None or not os.path.exists("/proc/self/maps"):
        return None
    ctypes.CDLL(name)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = [line.split()[-1] for line in maps if os.path.basename(line.split()[-1]).startswith("libm")]
    return next((path for path in found if os.path.basename(path).split(".")[0].split("-")[0] == "libm"), None)


def main(arguments):
    library, nm = arguments[1:3]
    path = libm()
    if path is None:
        return 77
    called = names(nm, library, "--undefined-only") & names(nm, path, "--defined-only") - ALLOWED
    for name in sorted(called):
        print(f"{library} calls {name} of libm")
    return 1 if called else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
