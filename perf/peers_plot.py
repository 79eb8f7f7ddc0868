# SPDX-License-Identifier: Apache-2.0
"""Plots of the figures of peers.py as SVG, with nothing but the standard library.

Each function takes the result lines of one file and returns the text of a picture. Colours are those of a thread count, the
same in all pictures, readable on white and on dark pages: a picture brings its own white ground.
"""

from html import escape
from math import ceil, floor, log10

COLOURS = ["#1b6ca8", "#e07b00", "#5a8f29", "#8a4f9e"]
GREY, INK = "#d4d8dc", "#20262c"
ROW, BAR, LEFT, WIDTH = 26, 9, 190, 860
FROM_MEMORY = "536870912"      # the working set whose bandwidth is the roof


def text(x, y, words, anchor="start", size=12, colour=INK):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">{escape(words)}</text>'


def line(x1, y1, x2, y2, colour=GREY, width=1.0, dash=""):
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"{dashes}/>'


def picture(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="sans-serif">\n<rect width="{width}" height="{height}" fill="white"/>\n'
            + "\n".join(parts) + "\n</svg>\n")


def legend(names, colours):
    parts, x = [], LEFT
    for name, colour in zip(names, colours):
        parts += [f'<rect x="{x}" y="30" width="12" height="12" fill="{colour}"/>', text(x + 18, 40, name)]
        x += 30 + 8*len(name)
    return parts


def bars(title, rows, names, scale, ticks, base, mark):
    """rows: [(label, [value or None, one per name])]; scale: value -> 0..1; ticks: [(value, words)]; bars start at `base`;
    a strong line stands at `mark`."""
    height, right = 70 + ROW*len(rows), WIDTH - 60

    def x(value):
        return LEFT + (right - LEFT)*min(1.0, max(0.0, scale(value)))
    parts = [text(LEFT, 20, title, size=14), *legend(names, COLOURS)]
    for value, words in ticks:
        parts += [line(x(value), 50, x(value), height - 18, INK if value == mark else GREY, 1.4 if value == mark else 1),
                  text(x(value), height - 4, words, "middle", 11)]
    for i, (label, values) in enumerate(rows):
        top = 54 + ROW*i
        parts.append(text(LEFT - 8, top + 13, label, "end", 11))
        for k, value in enumerate(values):
            if value is None:
                continue
            start, end, y = x(base), x(value), top + (BAR + 1)*k
            parts.append(f'<rect x="{min(start, end):.1f}" y="{y}" width="{max(1.0, abs(end - start)):.1f}" height="{BAR}" '
                         f'fill="{COLOURS[k % len(COLOURS)]}"/>')
            parts.append(text(max(start, end) + 3, y + 8, f"{value:.2f}", size=9))
    return picture(WIDTH, height, parts)


def by_workload(results, value):
    """Rows of `bars`: a value for every workload and thread count, in the order of the file."""
    counts = sorted({result["threads"] for result in results})
    rows = {}
    for result in results:
        rows.setdefault(result["workload"], [None]*len(counts))[counts.index(result["threads"])] = value(result)
    names = [f"{n} thread{'s' if n > 1 else ''}" for n in counts]
    return [(label, values) for label, values in rows.items() if any(v is not None for v in values)], names


def ratio_plot(results):
    """How many times faster than the best peer; to the left of the line the peer is faster."""
    rows, names = by_workload(results, lambda result: result.get("ratio"))
    top = max([2.0, *(v for _, values in rows for v in values if v)])
    low, high = log10(0.25), log10(top*1.1)
    ticks = [(t, f"{t:g}") for t in (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0) if t <= top*1.1]
    return bars("Best peer's time / ppto's time", rows, names, lambda v: (log10(v) - low)/(high - low) if v > 0 else 0,
                ticks, 1.0, 1.0)


def limit_plot(results):
    """The part of what memory or the product rate of the machine allows."""
    rows, names = by_workload([r for r in results if r["group"] != "latency"],
                              lambda result: result["peers"].get("ppto", {}).get("fraction"))
    ticks = [(0.0, "0"), (0.25, "25 %"), (0.5, "50 %"), (0.75, "75 %"), (0.9, "90 %"), (1.0, "100 %")]
    return bars("ppto: part of the machine's limit", rows, names, lambda v: v/1.1, ticks, 0.0, 0.9)


def roofline_points(results, threads, peer):
    """[(operations a byte, GFLOP/s, name)] of a peer, or of the best peer of each workload for None."""
    points = []
    for result in results:
        figures = result["peers"].get(peer or result.get("best"), {})
        if result["threads"] == threads and result.get("flops") and result.get("min_bytes") and figures.get("gflops"):
            points.append((result["flops"]/result["min_bytes"], figures["gflops"], result["workload"]))
    return points


def roofline(results, limits, threads):
    """GFLOP/s over operations a byte, below the roofs of memory and of the fma units."""
    ours, theirs = roofline_points(results, threads, "ppto"), roofline_points(results, threads, None)
    if not ours or not limits.get("stream_gbps"):
        return None
    band = max(limits[kind][FROM_MEMORY] for kind in ("stream_gbps", "triad_gbps"))
    peak, height = limits["fma_f32_gflops"], 520
    xs, ys = [p[0] for p in ours + theirs], [p[1] for p in ours + theirs] + [peak]
    x0, x1 = floor(log10(min(xs))), ceil(log10(max(xs)))
    y0, y1 = floor(log10(min(ys))), ceil(log10(max(ys)))

    def place(x, y):
        return (70 + (WIDTH - 110)*(log10(x) - x0)/(x1 - x0), height - 50 - (height - 110)*(log10(y) - y0)/(y1 - y0))
    parts = [text(70, 20, f"Roofline, {threads} thread{'s' if threads > 1 else ''}: GFLOP/s over operations a byte", size=14),
             text(70, 38, f"roofs: {band:.0f} GB/s from memory, {peak:.0f} GFLOP/s; in cache points lie above the first",
                  size=11)]
    for e in range(x0, x1 + 1):
        x, _ = place(10**e, 10**y0)
        parts += [line(x, 60, x, height - 50), text(x, height - 34, f"{10.0**e:g}", "middle", 11)]
    for e in range(y0, y1 + 1):
        _, y = place(10**x0, 10**e)
        parts += [line(70, y, WIDTH - 40, y), text(64, y + 4, f"{10.0**e:g}", "end", 11)]
    ridge = max(10**x0, min(10**x1, peak/band))
    first = max(10**x0, 10**y0/band)            # where the roof of memory comes into the picture
    (ax, ay), (bx, by), (cx, cy) = (place(first, band*first), place(ridge, min(peak, band*ridge)),
                                    place(10**x1, min(peak, band*10**x1)))
    parts += [line(ax, ay, bx, by, INK, 1.5), line(bx, by, cx, cy, INK, 1.5)]
    for x, y, name in theirs:
        px, py = place(x, y)
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="none" stroke="{COLOURS[1]}"><title>'
                     f'best peer: {escape(name)}</title></circle>')
    for x, y, name in ours:
        px, py = place(x, y)
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.5" fill="{COLOURS[0]}"><title>{escape(name)}</title></circle>')
    parts += [f'<circle cx="80" cy="{height - 12}" r="3.5" fill="{COLOURS[0]}"/>', text(90, height - 8, "ppto"),
              f'<circle cx="150" cy="{height - 12}" r="4" fill="none" stroke="{COLOURS[1]}"/>', text(160, height - 8, "best peer")]
    return picture(WIDTH, height, parts)
