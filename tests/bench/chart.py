# SPDX-License-Identifier: Apache-2.0
"""
Prints the chart of speed of README.md, as SVG, from the table in NOTES.md beside this file.

`make doc/speed.svg` keeps it; tests/integration/test_docs.py fails while the two differ.  A bar that is longer than LAST
ends in a gap and keeps its number.
"""
import os
import re
from html import escape

ROWS = ('cold run of busybox `true`', 'exec of `true` in a sandbox that lives', 'create of a sandbox that lives')
ORDER = ('floor', 'berth', 'bubblewrap', 'crun', 'runc', 'podman')
LEFT, WIDTH, BAR, LAST = 110, 480, 18, 45
COLOUR = {'berth': '#1f6feb', 'floor': '#b0b8c4'}
WHERE = ('Medians in ms, shorter is better. Measured on 2026-11-22: two vCPUs of a virtual machine, Linux 6.18,',
         'Debian 12 and its crun, runc, podman, bubblewrap (which sets no limits). Floor: the bare system calls.')


def figures():
    """Each row of the table: its title, and the milliseconds of each contender."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'NOTES.md')) as f:
        cells = [line.strip().strip('|').split('|') for line in f if line.startswith('|')]
    table = {c[0].strip(): c[1:] for c in cells if len(c) == 3}
    for title in ROWS:
        own, others = table[title]
        ms = {'berth': float(own.split()[0])}
        for name, number in re.findall(r'([a-z]+) ([\d.]+)', re.sub(r'\(.*?\)', '', others)):
            ms[name] = float(number)
        yield title.replace('`', ''), ms


def bar(y, name, ms):
    cut = ms > LAST
    length = WIDTH * min(ms, LAST) / LAST
    drawn = (f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
             f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{COLOUR.get(name, "#8c96a3")}"/>'
             f'<text x="{LEFT + length + 6:.1f}" y="{y + 14}">{ms:g}{" (cut off)" if cut else ""}</text>')
    if cut:
        drawn += f'<path d="M{LEFT + length - 26:.1f} {y + BAR + 2}l8 -{BAR + 4}h5l-8 {BAR + 4}z" fill="#fff"/>'
    return drawn


def main():
    out, y = [], 24
    for title, ms in figures():
        out.append(f'<text x="10" y="{y}" font-weight="bold">{escape(title)}</text>')
        y += 10
        for name in ORDER:
            if name in ms:
                out.append(bar(y, name, ms[name]))
                y += BAR + 6
        y += 24
    for line in WHERE:
        out.append(f'<text x="10" y="{y}" fill="#57606a">{escape(line)}</text>')
        y += 17
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{y}" viewBox="0 0 700 {y}" role="img" '
          f'font-family="sans-serif" font-size="13" fill="#1f2328"><title>Speed of berth beside others</title>'
          f'<rect width="100%" height="100%" fill="#fff"/>')
    print('\n'.join(out))
    print('</svg>')


main()
