#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables and plots from the JSON lines of peers.py.

    peers_report.py FILE                  ppto beside the best peer, as a table on stdout
    peers_report.py FILE --all            every peer
    peers_report.py FILE --short          only what falls short of its best peer, worst first
    peers_report.py FILE --write DOCS     into DOCS/performance.md, between its two markers, DOCS/performance/peers.md and
                                          the pictures beside it; text outside the markers stays

Of two lines for one workload and number of threads the later counts: a workload that was measured again.
"""

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

from peers_plot import limit_plot, ratio_plot, roofline

BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
PRODUCTS = ("sgemm-", "dgemm-", "batched-matmul-", "gemv-")     # plain products: may be at 0.95 of the best peer


# --------------------------------------------------------------------------------------------------- lines

def read_lines(path):
    """The last line of the machine, and the results, one per workload and number of threads, in order."""
    machine, results = {}, {}
    for text in Path(path).read_text().splitlines():
        line = json.loads(text)
        if line.get("line") == "machine":
            versions = {**machine.get("versions", {}), **line["versions"]}
            machine = dict(line, versions=versions)
        elif line.get("line") == "result":
            results[line["workload"], line["threads"]] = line
    return machine, list(results.values())


def drop_wrong_limits(machine, results):
    """Takes away the limits of every number of threads for which somebody was faster than the limit by more than a fifth:
    they were measured while the machine was busy, or while less of it was. The numbers of threads."""
    wrong = {r["threads"] for r in results for f in r["peers"].values()
             if f.get("ok", True) and f.get("fraction", 0) > 1.2 and r["group"] != "latency"}
    for threads in wrong:
        machine.get("limits", {}).pop(str(threads), None)
    for result in results:
        if result["threads"] in wrong:
            result["limit_seconds"] = None
            for figures in result["peers"].values():
                figures.pop("fraction", None)
    return sorted(wrong)


def wanted_ratio(result):
    return 0.95 if result["workload"].startswith(PRODUCTS) else 1.0


def spread(figures):
    """(max - min) / median of the samples of a peer; None with less than two."""
    samples = figures.get("samples") or []
    return (max(samples) - min(samples)) / statistics.median(samples) if len(samples) > 1 else None


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


# ---------------------------------------------------------------------------------------------------- text

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
        return "failed" if "failed" in figures else ""
    text = short(figures["seconds"])
    if not figures.get("ok", True):
        return f"({text}) ✗"
    return f"**{text}**" if best else text


def percent(value):
    return "" if value is None else f"{100*value:.0f} %"


def row_of(result):
    """Best peer, ppto, ratio and part of the limit of a workload with one number of threads."""
    if result is None:
        return ["", "", "", ""]
    ppto = result["peers"].get("ppto", {})
    ratio = result.get("ratio")
    best = f"{result['best']} {short(result['best_seconds'])}" if result.get("best") else ""
    mark = "" if ratio is None or ratio >= wanted_ratio(result) else " ↓"
    fraction = None if result["group"] == "latency" else ppto.get("fraction")
    return [best, cell(ppto, False), "" if ratio is None else f"{ratio:.2f}{mark}", percent(fraction)]


def ratio_table(results):
    """ppto beside its best peer, all numbers of threads in a row."""
    counts = sorted({result["threads"] for result in results})
    named = {(result["workload"], result["threads"]): result for result in results}
    heads = [f"{head}, {n} thread{'s' if n > 1 else ''}" if head == "best peer" else head
             for n in counts for head in ("best peer", "ppto", "ratio", "of limit")]
    lines = ["| workload | " + " | ".join(heads) + " |", "|---|" + "---|---:|---:|---:|"*len(counts)]
    for name in dict.fromkeys(result["workload"] for result in results):
        cells = [part for n in counts for part in row_of(named.get((name, n)))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def all_tables(results):
    """A table of every peer for each number of threads."""
    lines = []
    for threads in sorted({result["threads"] for result in results}):
        chosen = [result for result in results if result["threads"] == threads]
        peers = [name for name in dict.fromkeys(peer for r in chosen for peer in r["peers"])
                 if any(r["peers"].get(name, {}).get("seconds") for r in chosen)]
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", "", "| workload | " + " | ".join(peers) + " | limit |",
                  "|---|" + "---:|"*(len(peers) + 1)]
        for r in chosen:
            cells = [cell(r["peers"].get(peer), r.get("best") == peer) for peer in peers]
            limit = "" if r["group"] == "latency" else short(r.get("limit_seconds"))
            lines.append(f"| {r['workload']} | {' | '.join(cells)} | {limit} |")
        lines.append("")
    return lines


def summary(results):
    """What the table comes to: geometric means, how many reach their peer, how much the samples spread."""
    lines = []
    for threads in sorted({result["threads"] for result in results}):
        judged = [r for r in results if r["threads"] == threads and r.get("ratio")]
        if judged:
            mean = geometric_mean([r["ratio"] for r in judged])
            reached = sum(r["ratio"] >= wanted_ratio(r) for r in judged)
            lines.append(f"* {threads} thread{'s' if threads > 1 else ''}: geometric mean {mean:.2f}; {reached} of {len(judged)} "
                         "workloads reach their best peer (plain products: 0.95 of it).")
    spreads = [s for r in results if (s := spread(r["peers"].get("ppto", {}))) is not None]
    theirs = [s for r in results if r.get("best") and (s := spread(r["peers"][r["best"]])) is not None]
    if spreads and theirs:
        lines.append(f"* Spread of the samples, (most - least) / median: ppto {percent(statistics.median(spreads))} in the median "
                     f"workload, {percent(sorted(spreads)[int(0.9*(len(spreads) - 1))])} in the ninth of ten; the best peer "
                     f"{percent(statistics.median(theirs))} and {percent(sorted(theirs)[int(0.9*(len(theirs) - 1))])}.")
    wrong = sorted({r["workload"] for r in results if not r["peers"].get("ppto", {}).get("ok", True)})
    failed = sorted({r["workload"] for r in results if "failed" in r["peers"].get("ppto", {})})
    lines.append("* Results: ppto agrees with NumPy's float64 result within the tolerance of every workload"
                 + (f" but {', '.join(wrong)}" if wrong else "") + (f"; it fails {', '.join(failed)}" if failed else "") + ".")
    return lines


def section(machine, results, wrong):
    versions = ", ".join(f"{name} {value}" for name, value in machine.get("versions", {}).items() if value)
    return [f"`./dev bench --peers`, {machine.get('started', '')}, {machine.get('rounds')} samples each, interleaved, on "
            f"{machine.get('cpus')} CPUs of {machine.get('cpu')}, {machine.get('memory_gib')} GiB, Linux {machine.get('kernel')}, "
            f"Python {machine.get('python')}; {versions}. Ratio: time of the best peer / time of ppto; ↓: short of its peer.", "",
            *summary(results), *[f"* No limits with {n} thread{'s' if n > 1 else ''}: somebody was faster than those measured, so "
                                 "something else ran meanwhile." for n in wrong], "", *ratio_table(results), "",
            "![ratio to the best peer](performance/ratio.svg)", "", "![part of the machine's limit](performance/limit.svg)", "",
            "Every peer's time is in [performance/peers.md](performance/peers.md). Rooflines: "
            + ", ".join(f"[{n}](performance/roofline-{n}.svg)" for n in machine.get("limits", {})) + "."]


# --------------------------------------------------------------------------------------------------- files

def between_markers(text, lines):
    """The text with what is between the markers replaced."""
    if BEGIN not in text or END not in text:
        sys.exit(f"peers_report.py: performance.md needs the lines {BEGIN} and {END}")
    head, rest = text.split(BEGIN, 1)
    return head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1]


def write(docs, machine, results):
    """The section of performance.md, all peers, and the pictures."""
    page, folder, wrong = docs / "performance.md", docs / "performance", drop_wrong_limits(machine, results)
    page.write_text(between_markers(page.read_text(), section(machine, results, wrong)))
    folder.mkdir(exist_ok=True)
    head = ["# Every peer", "", "Times of one run of `./dev bench --peers`; see [performance.md](../performance.md). ✗: a wrong result.", ""]
    (folder / "peers.md").write_text("\n".join(head + all_tables(results)).rstrip() + "\n")
    (folder / "ratio.svg").write_text(ratio_plot(results))
    (folder / "limit.svg").write_text(limit_plot(results))
    for old in folder.glob("roofline-*.svg"):
        old.unlink()
    for threads, limits in machine.get("limits", {}).items():
        if plot := roofline(results, limits, int(threads)):
            (folder / f"roofline-{threads}.svg").write_text(plot)


def falling_short(results):
    """What is behind its best peer, worst first."""
    behind = sorted((r for r in results if r.get("ratio") and r["ratio"] < wanted_ratio(r)), key=lambda r: r["ratio"])
    return [f"{r['ratio']:.2f}  [{r['threads']}] {r['workload']:<24} {r['best']} {short(r['best_seconds'])}, ppto "
            f"{short(r['peers']['ppto']['seconds'])}, limit {short(r.get('limit_seconds'))}" for r in behind]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    machine, results = read_lines(options.file)
    if options.write:
        write(options.write, machine, results)
    elif options.short:
        print("\n".join(falling_short(results)))
    else:
        print("\n".join(all_tables(results) if options.all else summary(results) + [""] + ratio_table(results)))


if __name__ == "__main__":
    main()
