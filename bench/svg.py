"""svg.py: two kinds of pictures, bars and lines, as SVG without script or font, for light and dark pages."""
import dataclasses
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


@dataclasses.dataclass
class Panel:
    """Horizontal bars under a heading. groups: [(label, [(value or None, goal or None, text) for each of names])]; the goal is a
    thick mark. line_at: a dashed line; is_log: powers of ten, from one below the smallest value; least_top: the axis goes at least so far."""
    heading: str
    names: list
    groups: list
    unit: str = ""
    line_at: float = None
    is_log: bool = False
    least_top: float = 0


LEFT, RIGHT, THICK, GAP = 200, 780, 16, 14  # of panels


def marks_of(panel):
    values = [v for _, cells in panel.groups for value, goal, _ in cells for v in (value, goal) if v]
    if not panel.is_log:
        return steps(0, max([panel.least_top, *values], default=1) or 1, 6)
    low, high = math.floor(math.log10(min(values, default=1))), math.ceil(math.log10(max(values, default=10)))
    return [10.0 ** i for i in range(low, max(high, low + 1) + 1)]


def panel_body(panel, top):
    """(elements, the height they take) from top down."""
    marks = marks_of(panel)

    def x(value):
        if panel.is_log:
            return LEFT + (RIGHT - LEFT) * math.log10(value / marks[0]) / math.log10(marks[-1] / marks[0])
        return LEFT + (RIGHT - LEFT) * value / marks[-1]

    out, y = [], top
    if panel.heading:
        out.append(f'<text x="24" y="{y + 14}" style="font-weight:600">{escape(panel.heading)}</text>')
        y += 26
    if len(panel.names) > 1:
        out += legend(panel.names, 24, y + 10)
        y += 24
    y += 8
    bottom = y + sum(THICK * len(cells) + GAP for _, cells in panel.groups) - GAP + 8
    for t in marks:
        out.append(f'<path class="grid" d="M{x(t):.1f} {y - 8}V{bottom}"/>')
        out.append(f'<text class="faint" x="{x(t):.1f}" y="{bottom + 18}" text-anchor="middle">{t:g}{panel.unit}</text>')
    if panel.line_at is not None:
        out.append(f'<path class="one" d="M{x(panel.line_at):.1f} {y - 8}V{bottom}"/>')
    for label, cells in panel.groups:
        out.append(f'<text x="{LEFT - 10}" y="{y + THICK * len(cells) / 2 + 4:.1f}" text-anchor="end">{escape(label)}</text>')
        for i, (value, goal, text) in enumerate(cells):
            end = x(value) if value else LEFT
            if goal and end - 4 < x(goal) < end + 16 + 6.5 * len(text):
                end = x(goal)  # the text does not fit between bar and mark
            if value is not None:
                out.append(f'<rect class="f{i % N_COLOURS}" x="{LEFT}" y="{y + 1}" width="{max(x(value) - LEFT, 1):.1f}" height="{THICK - 2}"/>')
            if goal is not None:
                out.append(f'<path class="goal" d="M{x(goal):.1f} {y - 1}v{THICK + 2}"/>')
            out.append(f'<text x="{end + 6:.1f}" y="{y + THICK - 4}" style="font-size:12px">{escape(text)}</text>')
            y += THICK
        y += GAP
    return out, bottom + 28 - top


def panels(title, note, list_of_panels):
    """One picture of several panels, one under the other."""
    body, top = [], 72
    for panel in list_of_panels:
        out, height = panel_body(panel, top)
        body += out
        top += height + 18
    return frame(900, top - 4, title, note, body)


def bars(title, note, names, groups, unit="", line_at=None):
    """A picture of one panel; see Panel for groups."""
    return panels(title, note, [Panel("", names, groups, unit, line_at)])


def lines(title, note, series, x_label, y_label, rings=None):
    """Curves over a logarithmic x (base 2) and a y that is relative. series: {name: [(x, y)]}; rings: {name: the x of a point to mark}."""
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
    for i, (name, points) in enumerate(series.items()):
        places = [at(*point) for point in points]
        out.append(f'<path class="line s{i % N_COLOURS}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) + '"/>')
        out += [f'<circle class="f{i % N_COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
        ringed = [at(*point) for point in points if rings and point[0] == rings.get(name)]
        out += [f'<circle class="line s{i % N_COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="8"/>' for x, y in ringed]
    return frame(width, height, title, note, out)
