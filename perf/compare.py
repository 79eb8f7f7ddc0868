#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What got slower or faster between two files of JSON lines, of `./dev bench suite` or `./dev bench --peers`.

    compare.py BEFORE AFTER [--margin PERCENT]

Times are compared as they are most comparable: a workload by its ratio to the best peer where both files have one, for the
machine is the same for both in one run; everything else by its own figure. A difference counts when it is larger than the
margin (5 %) and larger than the samples of both files spread. Exit status 1 when something got slower.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path


def figures_of(line):
    """[(name, unit, value, noise, more is better)] of one line."""
    if line.get("line") == "result":
        ppto = line["peers"].get("ppto", {})
        if not ppto.get("seconds"):
            return []
        samples = ppto.get("samples") or [ppto["seconds"]]
        noise = (max(samples) - min(samples)) / 2 / statistics.median(samples)
        name = f"{line['workload']} [{line['threads']}]"
        own = (name, "s", ppto["seconds"], noise, False)
        return [own, (name, f"x {line['best']}", line["ratio"], noise, True)] if line.get("ratio") else [own]
    if "benchmark" not in line:
        return []
    name = " ".join(str(line[key]) for key in ("group", "benchmark", "way", "executor", "elements") if key in line)
    for key in ("of_probe", "ratio", "median", "max", "ns", "cpu"):
        if isinstance(line.get(key), (int, float)):
            noise = (line["median"] - line["min"]) / line["median"] if key == "median" and line.get("min") else 0.0
            return [(name, line.get("unit", ""), line[key], noise, key in ("of_probe", "ratio"))]
    return []


def read(path):
    """{name: {unit: (value, noise, more is better)}}; the later of two lines counts."""
    found = {}
    for text in Path(path).read_text().splitlines():
        for name, unit, value, noise, more in figures_of(json.loads(text)):
            found.setdefault(name, {})[unit] = (value, noise, more)
    return found


def changes(before, after, margin):
    """[(factor, name, unit, old, new)] of what differs; a factor over 1 is better. Sorted, worst first."""
    rows = []
    for name in before.keys() & after.keys():
        units = [unit for unit in before[name] if unit in after[name]]
        unit = next((u for u in units if u.startswith("x ")), units[0] if units else None)
        if unit is None:
            continue
        (old, noise, more), (new, noise_too, _) = before[name][unit], after[name][unit]
        if old <= 0 or new <= 0:
            continue
        factor = new / old if more else old / new
        if abs(factor - 1) > max(margin, noise, noise_too):
            rows.append((factor, name, unit, old, new))
    return sorted(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--margin", type=float, default=5, help="percent that are no difference")
    options = parser.parse_args()
    before, after = read(options.before), read(options.after)
    rows = changes(before, after, options.margin / 100)
    for factor, name, unit, old, new in rows:
        word = "slower" if factor < 1 else "faster"
        print(f"{word} {factor:5.2f}  {name:<40} {old:.4g} -> {new:.4g} {unit}")
    both = before.keys() & after.keys()
    print(f"{len(both)} compared, {sum(r[0] < 1 for r in rows)} slower, {sum(r[0] > 1 for r in rows)} faster; "
          f"{len(before.keys() - both)} only before, {len(after.keys() - both)} only after")
    return 1 if any(row[0] < 1 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
