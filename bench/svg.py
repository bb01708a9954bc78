"""svg.py: two kinds of pictures, bars and lines, as SVG without script or font, for light and dark pages."""
import math
from html import escape

STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; font-size: 13px; fill: #24292f }
.card { fill: #ffffff; stroke: #d0d7de } .grid { stroke: #d8dee4 } .title { font-size: 17px; font-weight: 600 } .faint { fill: #57606a }
.line { fill: none; stroke-width: 2; stroke-linejoin: round } .goal { stroke: #16181d; stroke-width: 2.5 } .one { stroke: #57606a; stroke-dasharray: 4 3 }
.f0 { fill: #2f81c7 } .f1 { fill: #e08a00 } .f2 { fill: #0a7f5c } .f3 { fill: #b8488a } .f4 { fill: #6e6ad0 }
.s0 { stroke: #2f81c7 } .s1 { stroke: #e08a00 } .s2 { stroke: #0a7f5c } .s3 { stroke: #b8488a } .s4 { stroke: #6e6ad0 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .card { fill: #0d1117; stroke: #30363d } .grid { stroke: #262c36 } .faint { fill: #9198a1 }
.goal { stroke: #f6f8fa } .one { stroke: #9198a1 }
}
"""
N_COLOURS = 5


def frame(width, height, title, note, body):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">', f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>", f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<text x="24" y="34" class="title">{escape(title)}</text>', f'<text x="24" y="56" class="faint">{escape(note)}</text>', *body,
        "</svg>"]) + "\n"


def steps(low, high, n):
    """Round numbers that cover [low, high]."""
    raw = (high - low) / n or 1
    unit = 10 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= raw * 0.999)
    return [i * step for i in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def legend(names, x, y):
    out = []
    for i, name in enumerate(names):
        out.append(f'<rect class="f{i % N_COLOURS}" x="{x}" y="{y - 10}" width="12" height="12" rx="2"/>')
        out.append(f'<text x="{x + 18}" y="{y}">{escape(name)}</text>')
        x += 44 + 7.2 * len(name)
    return out


def bars(title, note, names, groups, unit="", line_at=None):
    """Horizontal bars. groups: [(label, [(value or None, goal or None, text) for each of names])]; the goal is a thick mark."""
    width, left, right, top, thick = 900, 200, 800, 104, 16
    values = [v for _, cells in groups for value, goal, _ in cells for v in (value, goal) if v]
    marks = steps(0, max(values, default=1), 6)
    height = top + sum(thick * len(cells) + 14 for _, cells in groups) + 40

    def x(value):
        return left + (right - left) * value / marks[-1]

    out = legend(names, 24, 82) if len(names) > 1 else []
    for t in marks:
        out.append(f'<path class="grid" d="M{x(t):.1f} {top - 8}V{height - 34}"/>')
        out.append(f'<text class="faint" x="{x(t):.1f}" y="{height - 16}" text-anchor="middle">{t:g}{unit}</text>')
    y = top
    for label, cells in groups:
        out.append(f'<text x="{left - 10}" y="{y + thick * len(cells) / 2 + 4:.1f}" text-anchor="end">{escape(label)}</text>')
        for i, (value, goal, text) in enumerate(cells):
            if value is not None:
                out.append(f'<rect class="f{i % N_COLOURS}" x="{left}" y="{y + 1}" width="{max(x(value) - left, 1):.1f}" height="{thick - 2}"/>')
            if goal is not None:
                out.append(f'<path class="goal" d="M{x(goal):.1f} {y - 1}v{thick + 2}"/>')
            end = max(x(v) for v in (value or 0, goal or 0))
            out.append(f'<text x="{end + 6:.1f}" y="{y + thick - 4}" style="font-size:12px">{escape(text)}</text>')
            y += thick
        y += 14
    if line_at is not None:
        out.append(f'<path class="one" d="M{x(line_at):.1f} {top - 8}V{height - 34}"/>')
    return frame(width, height, title, note, out)


def lines(title, note, series, x_label, y_label):
    """Curves over a logarithmic x (base 2) and a y that is relative. series: {name: [(x, y)]}."""
    width, height, left, right, top, bottom = 900, 400, 80, 860, 122, 336
    xs = sorted({x for points in series.values() for x, _ in points})
    y_marks = steps(0, max((y for points in series.values() for _, y in points), default=1), 5)
    span = math.log2(xs[-1] / xs[0]) or 1

    def at(x, y):
        return left + (right - left) * math.log2(x / xs[0]) / span, bottom - (bottom - top) * y / y_marks[-1]

    out = legend(series, 24, 82)
    for t in y_marks:
        y = at(xs[0], t)[1]
        out.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>')
        out.append(f'<text class="faint" x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{t:g}</text>')
    out.append(f'<text class="faint" x="24" y="{top - 14}">{escape(y_label)}</text>')
    for value in xs:
        out.append(f'<text class="faint" x="{at(value, 0)[0]:.1f}" y="{bottom + 20}" text-anchor="middle">{value:g}</text>')
    out.append(f'<text class="faint" x="{right}" y="{bottom + 42}" text-anchor="end">{escape(x_label)}</text>')
    for i, points in enumerate(series.values()):
        places = [at(*point) for point in points]
        out.append(f'<path class="line s{i % N_COLOURS}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) + '"/>')
        out += [f'<circle class="f{i % N_COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
    return frame(width, height, title, note, out)
