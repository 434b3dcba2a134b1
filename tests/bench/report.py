# SPDX-License-Identifier: Apache-2.0
"""The report of bench.py: as text, as JSON, as a chart."""
import os
import platform
import shutil
import subprocess
from xml.sax.saxutils import escape

TOOLS = ('bwrap', 'crun', 'runc', 'nsjail', 'isolate', 'podman', 'docker', 'umoci', 'skopeo', 'tar', 'unshare')


def base_of(results):
    return next((r for r in results if r.key == 'berth' and r.median), None)


def ratio(r, base, which='median'):
    mine, theirs = getattr(base, which, None) if base else None, getattr(r, which)
    return theirs / mine if mine and theirs is not None else None


def shown(measure, value):
    if measure.unit != 'ms':
        return f'{value:.0f} {measure.unit}'
    return f'{value / 1e3:.2f} ms' if value < 1e6 else f'{value / 1e6:.2f} s'


def table(measure, results):
    base = base_of(results)
    lines = ['', f'{measure.key}: {measure.title}',
             f'  {"":26} {"median":>10} {"p10":>10} {"p99":>10} {"cpu":>10} {"x berth":>8} {"at p99":>7} {"n":>5}']
    for r in results:
        if r.median is None:
            lines.append(f'  {r.key:26} {"-":>10}  {r.note}')
            continue
        ratios = ''.join(f'{x:{w}.2f}' if x is not None else ' ' * w for x, w in ((ratio(r, base), 9), (ratio(r, base, 'p99'), 8)))
        cpu = f'{r.cpu / 1e3:7.2f} ms' if r.cpu is not None else ' ' * 10
        lines.append(f'  {r.key:26} {shown(measure, r.median):>10} {shown(measure, r.p10):>10} {shown(measure, r.p99):>10} '
                     f'{cpu}{ratios} {r.n:5}  {r.note}'.rstrip())
    return '\n'.join(lines)


STYLE = ('text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.b{fill:#1b6ca8}.f{fill:#9aa5ad}.p{fill:#d98e04}'
         '.w{stroke:#555;fill:none}.g{stroke:#ddd}')
COLOURS = ('#1b6ca8', '#2a9d4e', '#8e44ad', '#c0392b', '#d98e04', '#9aa5ad')


def curves(measure, rows, left, width, y):
    """Medians over the number of others, each as its ratio to that beside the fewest: (SVG, the y below it)."""
    lines, height, out = {}, 240, []
    for r in rows:
        name, _, others = r.key.partition(', ')
        lines.setdefault(name, []).append((int(others.split()[0]), r.median))
    listed = lines.pop('ps', ())     # it tells of each, so its time is told and its ratio is not drawn
    most = max(n for points in lines.values() for n, _ in points) or 1
    top = max(1.2, max(us / points[0][1] for points in lines.values() for _, us in points))

    def at(n, times):
        return left + width * n / most, y + height * (1 - times / top)

    for times in (1, 1.1, top):
        out.append(f'<path class="g" d="M{left} {at(0, times)[1]:.1f}h{width}"/>'
                   f'<text x="{left - 8}" y="{at(0, times)[1] + 4:.1f}" text-anchor="end">{times:.1f}×</text>')
    for n in {n for points in lines.values() for n, _ in points}:
        out.append(f'<text x="{at(n, 0)[0]:.1f}" y="{y + height + 16}" text-anchor="middle">{n}</text>')
    below = 0       # the labels keep apart
    ends = sorted(lines, key=lambda k: -lines[k][-1][1] / lines[k][0][1])
    for name in ends:
        points, colour = lines[name], COLOURS[list(lines).index(name) % len(COLOURS)]
        path = ' '.join('{:.1f},{:.1f}'.format(*at(n, us / points[0][1])) for n, us in points)
        below = max(below + 14, at(0, points[-1][1] / points[0][1])[1] + 4)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{left + width + 6}" y="{below:.1f}" style="fill:{colour}">{escape(name)} {points[-1][1] / points[0][1]:.2f}× '
                   f'{shown(measure, points[-1][1])}</text>')
    y += max(height, int(below) - y) + 34
    if listed:
        out.append(f'<text x="{left}" y="{y}">ps: {", ".join(f"{shown(measure, us)} beside {n}" for n, us in listed)}</text>')
    return ''.join(out), y + 14


def svg(groups):
    """Bars of the medians with a whisker to the 99th percentile; one block a measure, each with a scale of its own."""
    left, width, bar, gap = 200, 520, 18, 8
    out, y = [], 34
    for measure, results in groups:
        rows = [r for r in results if r.median is not None]
        if not rows:
            continue
        base, top = base_of(results), max(r.p99 for r in rows)
        out.append(f'<text class="t" x="10" y="{y}">{escape(measure.title.replace("`", ""))}</text>')
        y += 14
        if measure.curve:
            drawn, y = curves(measure, rows, left, width, y)
            out.append(drawn)
            rows = []
        for r in rows:
            w, p99, mid = width * r.median / top, left + width * r.p99 / top, y + bar / 2
            times = f' · {ratio(r, base):.2f}×' if base else ''
            kind = 'b' if r.key.startswith('berth') else 'f' if r.key.startswith('floor') or r.key == 'no sandbox' else 'p'
            out.append(f'<text x="{left - 8}" y="{mid + 4:.1f}" text-anchor="end">{escape(r.key)}</text>'
                       f'<rect class="{kind}" x="{left}" y="{y}" width="{w:.1f}" height="{bar}"/>'
                       f'<path class="w" d="M{left + w:.1f} {mid}H{p99:.1f}M{p99:.1f} {mid - 4}v8"/>'
                       f'<text x="{p99 + 6:.1f}" y="{mid + 4:.1f}">{shown(measure, r.median)}{times}</text>')
            y += bar + gap
        y += 26
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" height="{y}">'
            f'<style>{STYLE}</style><rect width="100%" height="100%" fill="#fff"/>'
            f'<text x="10" y="14">median; the line reaches to the 99th percentile; × is the ratio to berth</text>'
            f'{"".join(out)}</svg>\n')


def versions():
    tools = {}
    for tool in TOOLS:
        if shutil.which(tool):
            said = subprocess.run([tool, '--version'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            tools[tool] = (said.stdout.splitlines() or [''])[0]
    return tools


def as_json(groups, options, targets, seconds):
    return {
        'machine': {'kernel': platform.release(), 'cpus': os.cpu_count(), 'arch': platform.machine()},
        'versions': versions(),
        'rounds': options.rounds, 'gap_us': options.gap_us, 'budget_s': options.budget, 'took_s': round(seconds, 1),
        'measures': {m.key: {'title': m.title, 'unit': 'us' if m.unit == 'ms' else m.unit, 'results': [
            dict(r._asdict(), ratio=ratio(r, base_of(rs)), ratio_p99=ratio(r, base_of(rs), 'p99')) for r in rs]}
            for m, rs in groups},
        'targets': targets,
    }
