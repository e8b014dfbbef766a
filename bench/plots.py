#!/usr/bin/env python3
"""Draws the plots of the documentation from the tables that stand beside them: plots.py, from the source folder.

docs/plots/why.svg has the bits of README.md's table, docs/crossover.svg the milliseconds of docs/PERFORMANCE.md. Both follow
the reader's light or dark mode, and use Okabe and Ito's colours, which the colour-blind tell apart.
"""

import math
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STYLE = """<style>
text { font: 13px sans-serif; fill: #1f2328 } .mute { fill: #59636e } .big { font-size: 15px; font-weight: 600 }
.line { fill: none; stroke-width: 2.5 } .grid { stroke: #d1d9e0 } .back { fill: #ffffff } .end { text-anchor: end }
.mid { text-anchor: middle } .pairs { stroke: #e69f00; fill: #e69f00 } .fast { stroke: #0072b2; fill: #0072b2 }
.tight { stroke: #d55e00; fill: #d55e00 } .full { stroke: #8a8a8a; fill: #8a8a8a } .other { fill: #8a8a8a }
.weft { fill: #0072b2 } .line.pairs, .line.fast, .line.tight, .line.full { fill: none }
@media (prefers-color-scheme: dark) { text { fill: #f0f6fc } .mute { fill: #9198a1 } .grid { stroke: #3d444d }
.back { fill: #0d1117 } .fast { stroke: #56b4e9; fill: #56b4e9 } .weft { fill: #56b4e9 } .line.fast { fill: none } }
</style>"""


def table(page, first):
    """Rows of a page's table by its first column's title: lists of cells without marks."""
    lines = (ROOT / page).read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |")) + 2
    rows = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            return rows
        rows.append([re.sub(r"[*`]|\[|\]\(.*?\)", "", cell).strip() for cell in line.strip("|").split(" | ")])
    return rows


def text(x, y, words, kind=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{words}</text>'


def picture(path, width, height, title, parts):
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
    back = f'<rect width="{width}" height="{height}" class="back"/>'
    (ROOT / path).write_text("\n".join([head, STYLE, back, text(16, 26, title, "big"), *parts, "</svg>"]) + "\n")


def why():
    """A bar for each way to send one update."""
    parts, y = [], 44
    for way, bits, *_ in table("README.md", "way to send one update"):
        length = 8.6 * float(bits)
        kind = "weft" if way.startswith("weft") else "other"
        parts += [
            text(308, y + 15, way.split(":")[0], "end"),
            f'<rect x="320" y="{y}" width="{length:.1f}" height="20" rx="2" class="{kind}"/>',
            text(328 + length, y + 15, bits),
        ]
        y += 28
    title = "Bits a changed weight, one optimizer step of a bf16 transformer (1.17 % changed)"
    picture("docs/plots/why.svg", 800, y + 8, title, parts)


def crossover():
    """A panel for each link, a line for each level."""
    rows, levels = table("docs/PERFORMANCE.md", "link | changed"), ("pairs", "fast", "tight", "full")
    parts, links = [], list(dict.fromkeys(row[0] for row in rows))
    for panel, link in enumerate(links):
        left = 56 + 300 * panel

        def x(percent, left=left):
            return left + 120 * math.log10(percent / 0.1) + 10

        def y(ms):
            return 344 - 80 * math.log10(ms / 2)

        parts.append(text(left + 125, 58, link, "mid"))
        for ms in (3, 10, 30, 100, 300, 1000, 3000):
            parts.append(f'<line x1="{left}" x2="{left + 260}" y1="{y(ms):.1f}" y2="{y(ms):.1f}" class="grid"/>')
            parts += [text(left - 6, y(ms) + 4, str(ms), "end mute")] if panel == 0 else []
        for percent in (0.1, 1, 10):
            parts.append(text(x(percent), 362, f"{percent} %", "mid mute"))
        of_link = [row for row in rows if row[0] == link]
        for number, level in enumerate(levels):
            points = [(x(float(row[1].rstrip(" %"))), y(float(row[2 + number]))) for row in of_link]
            parts.append(f'<polyline class="line {level}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')
            parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" class="{level}"/>' for a, b in points]
    for number, level in enumerate(levels):
        parts.append(f'<circle cx="{310 + 110 * number}" cy="392" r="5" class="{level}"/>')
        parts.append(text(322 + 110 * number, 396, level))
    parts.append(text(16, 396, "elements changed; ms", "mute"))
    picture("docs/crossover.svg", 960, 410, "Milliseconds from publish until held, 32 MiB of bf16 (16.8 M weights), by level and link", parts)


if __name__ == "__main__":
    why()
    crossover()
