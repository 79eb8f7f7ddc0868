#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: comma_locale.py PROGRAM    Numbers in texts do not follow the locale of the program.

Runs PROGRAM (comma_locale.c) in the C locale and in one with a decimal comma, made for this test. Files `*.same` must be
the same, `*.json` must be JSON, and no `*.svg` may have a comma between digits where a number stands alone. Skipped (77)
where localedef or its sources (Debian: locales) are missing."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77


def run(program, folder, **env):
    """The decimal point that the program saw."""
    folder.mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith("LC_") and name != "LANG"}
    own.update(env, PPTO_CACHE_DIR="")
    return subprocess.run([program, folder], env=own, check=True, capture_output=True, text=True).stdout.strip()


def faults(plain, comma):
    for file in sorted(plain.iterdir()):
        other = (comma / file.name).read_text()
        if file.suffix == ".same" and file.read_text() != other:
            lines = zip(file.read_text().splitlines(), other.splitlines())
            yield f"{file.name}: {next((pair for pair in lines if pair[0] != pair[1]), 'another length')}"
        if file.suffix == ".json":
            try:
                json.loads(other)
            except ValueError as error:
                yield f"{file.name}: {error}"
        if file.suffix == ".svg" and re.search(r'"-?\d+,\d+"|>\d+,\d+ ', other):
            yield f"{file.name}: {re.search(r'.{20}[0-9]+,[0-9]+.{10}', other)[0]}"


def main():
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = shutil.which("localedef") and subprocess.run(
            ["localedef", "--no-archive", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"], capture_output=True, check=False)
        if not made or not (folder / "de_DE.UTF-8").is_dir():
            print("skipped: localedef or the sources of locales are missing")
            return SKIPPED
        if run(program, folder / "plain", LC_ALL="C") != ".":
            return 1
        if run(program, folder / "comma", LC_ALL="de_DE.UTF-8", LOCPATH=name) != ",":
            print("skipped: this C library does not take the locale")
            return SKIPPED
        found = list(faults(folder / "plain", folder / "comma"))
        print("\n".join(found))
        return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
