#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Markdown tables from the figures of peers.py.

    peers_report.py out.json...         tables on stdout, one per thread count and kind
"""

import json
import sys
from pathlib import Path


def short(seconds):
    """Three digits with a unit: 12.3 µs, 4.56 ms, 1.23 s."""
    if seconds is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns")):
        value = seconds * factor
        if value >= 1 or unit == "ns":
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return f"{value:.{digits}f} {unit}"
    return "0"


def cell(figures, best):
    """One table cell: the time, bold for the best, with a mark for a wrong or failed result."""
    if not figures or "skipped" in figures:
        return ""
    if figures.get("seconds") is None:
        return "failed"
    text = short(figures["seconds"])
    if not figures.get("ok", True):
        return f"({text}) ✗"
    return f"**{text}**" if best else text


def steady_table(results, peers):
    print("| workload | " + " | ".join(peers) + " | limit | best / limit |")
    print("|---|" + "---:|" * (len(peers) + 2))
    for result in results:
        cells = [cell(result["peers"].get(peer), result.get("best") == peer) for peer in peers]
        limit, best = result.get("limit_seconds"), result.get("best_seconds")
        tiny = result["group"] == "latency"
        ratio = "" if tiny or not limit or not best else f"{100*limit/best:.0f} % {result['bound']}"
        print(f"| {result['workload']} | {' | '.join(cells)} | {'' if tiny else short(limit)} | {ratio} |")
    print()


def first_table(results, peers):
    for result in results:
        print(f"{result['workload']}: {result['note']}\n")
        print("| peer | time | more |\n|---|---:|---|")
        for peer in peers:
            figures = result["peers"].get(peer, {})
            if figures.get("seconds") is None:
                continue
            time = short(figures["seconds"])
            if "ns_per_node" in figures:
                time = f"{figures['ns_per_node']:.0f} ns per node"
            more = figures.get("note", "")
            if figures.get("compilations") is not None:
                more = f"{figures['compilations']} compilations or traces"
            print(f"| {peer} | {time} | {more} |")
        print()


def file_table(results):
    for result in results:
        print(f"{result['workload']}: {result['note']}\n")
        print("| peer | cold | cached | peak anonymous | peak resident |\n|---|---:|---:|---:|---:|")
        for peer, figures in result["peers"].items():
            if figures.get("seconds") is None:
                if "failed" in figures:
                    print(f"| {peer} | failed: {figures['failed']} | | | |")
                continue
            print(f"| {peer} | {figures['cold_seconds']:.2f} s | {figures['seconds']:.2f} s | "
                  f"{figures['peak_anonymous']/2**20:.0f} MiB | {figures['peak_resident']/2**20:.0f} MiB |")
        print()


def main():
    for path in sys.argv[1:]:
        report = json.loads(Path(path).read_text())
        for threads in sorted({result["threads"] for result in report["results"]}):
            results = [r for r in report["results"] if r["threads"] == threads]
            peers = list(dict.fromkeys(peer for r in results for peer in r["peers"]))
            print(f"## {threads} thread{'s' if threads > 1 else ''}\n")
            steady = [r for r in results if r["kind"] == "steady"]
            if steady:
                steady_table(steady, [p for p in peers if p != "dask"])
            first_table([r for r in results if r["kind"] in ("first", "shapes", "record")], peers)
            file_table([r for r in results if r["kind"] == "file"])


if __name__ == "__main__":
    main()
