#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench: every figure, berth beside the floor and beside each peer that is installed, in one report.

Runs are interleaved: every round runs every contender once, in an order shuffled anew, so noise falls on all alike.  Ratios
are those of the medians and of the 99th percentiles, to the `berth` row of the same measure.  A contender that fails or is
not there is named and not counted.  Each measure has a share of --budget, and takes fewer rounds when that is over.
Writes BUILD/bench.txt, BUILD/bench.json and BUILD/bench.svg.
"""
import argparse
import collections
import json
import os
import platform
import signal
import sys
import time

import cold
import doors
import holding
import images
import living
import report
import zygote
from figures import Clock
from peers import Place, own_mounts

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
GAP_US = 3000       # spun between two runs, so that the kernel's deferred clean-up of one is not charged to the next
MEASURES = {m.key: m for part in (cold, living, doors, zygote, holding, images) for m in part.MEASURES}
# words for several measures at once
GROUPS = {'cold': [m.key for m in cold.MEASURES], 'image': [m.key for m in images.MEASURES],
          **{g: [k for k in MEASURES if k.startswith(g + '-')] for g in ('run', 'create', 'copy', 'unpack', 'growth')}}
DEFAULT_BUDGET = sum(m.share for m in MEASURES.values())

# What the issues ask for: berth's median of `measure` is at most `times` that of `other` (None: at most `times` in the measure's unit).
Target = collections.namedtuple('Target', 'measure other times')
TARGETS = (
    Target('run-host', 'floor', 2), Target('run-host', 'floor, plain C', 2), Target('run-host', 'floor', 1.5), Target('run-rootfs', 'floor', 1.5), Target('run-rootfs', 'bwrap', 1),
    Target('run-rootfs', 'runc', 1 / 3), Target('run-oci', 'crun', 1), Target('run-oci', 'runc', 1 / 3),
    Target('exec', 'floor: berth --version', 2), Target('shell', None, 0.3), Target('claim', None, 1),
    Target('copy-in', 'floor: cp', 1.25), Target('copy-out', 'floor: cp', 1.25), Target('density', None, 600),
    Target('output', 'berth run', 1.25), Target('list', None, 20), Target('list', 'berth ps', 1), Target('docker-api', None, 1000 / 150), Target('zygote', None, 3),
    *(Target(m, other, 0.5) for m in ('unpack-five', 'unpack-five-disk') for other in ('umoci unpack', 'skopeo copy, umoci unpack', 'podman pull')),
    Target('unpack-one', 'floor: tar -xz', 1.5), Target('unpack-one-disk', 'floor: tar -xz', 1.5),
)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--build', default=os.path.join(TREE, 'build'))
    p.add_argument('--budget', type=float, metavar='SECONDS',
                   help=f'for all that is measured; its shares are theirs of {DEFAULT_BUDGET} (the default for all measures)')
    p.add_argument('--rounds', type=int, default=200, help='at most; fewer when the time is over (%(default)s)')
    p.add_argument('--warmup', type=int, default=3)
    p.add_argument('--gap-us', type=int, default=GAP_US, help='spun between two cold runs (%(default)s)')
    p.add_argument('--copy-mib', type=int, default=1024, help='size of the file that is copied (%(default)s)')
    p.add_argument('--peak-mib', type=int, default=1024, help='size of the larger image of unpack-peak (%(default)s)')
    p.add_argument('--density', type=int, nargs='+', default=[1, 100, 1000], help='how many idle sandboxes (%(default)s)')
    p.add_argument('--growth', type=int, nargs='+', default=[0, 200, 1000, 2000], help='how many others live meanwhile (%(default)s)')
    p.add_argument('--layers', type=int, nargs='+', default=[1, 10, 50, 100], help='of images that are run (%(default)s)')
    p.add_argument('--gate', metavar='WHO=RATIO', action='append', default=[],
                   help='exit 1 unless the median of berth is at most RATIO times that of WHO; may be repeated')
    p.add_argument('measure', nargs='*', help='all, or some of: ' + ' '.join([*MEASURES, *GROUPS]))
    options = p.parse_args()
    options.build = os.path.realpath(options.build)
    wanted = [k for word in options.measure or MEASURES for k in GROUPS.get(word, [word])]
    for k in wanted:
        if k not in MEASURES:
            p.error(f'there is no measure {k!r}; there are {" ".join([*MEASURES, *GROUPS])}')
    options.measure = [k for k in MEASURES if k in wanted]
    shares = sum(MEASURES[k].share for k in options.measure)
    options.budget = options.budget or shares
    options.scale = options.budget / shares
    if os.geteuid():
        p.error('needs root')
    return options


def judged(groups):
    """The targets of what was measured, as met or missed."""
    found, out = {m.key: rs for m, rs in groups}, []
    for t in TARGETS:
        rows = {r.key: r.median for r in found.get(t.measure, ()) if r.median}
        mine, other = rows.get('berth'), rows.get(t.other)
        if not mine or (t.other and not other):
            continue
        unit = MEASURES[t.measure].unit
        got = mine / other if t.other else mine / (1e3 if unit == 'ms' else 1)
        text = (f'berth takes {got:.2f} times what `{t.other}` takes; wanted {t.times:.2f} at most' if t.other else
                f'{got:.2f} {unit}; wanted {t.times:g} {unit} at most')
        out.append({'measure': t.measure, 'met': got <= t.times, 'text': text})
    return out


def gates(groups, wanted):
    """Prints each gate and returns whether all hold; a gate that could not be measured does not hold."""
    good = True
    for gate in wanted:
        who, _, limit = gate.rpartition('=')
        for measure, results in groups:
            peer = next((r for r in results if r.key == who), None)
            if peer is None:
                continue
            base = report.base_of(results)
            got = base.median / peer.median if base and peer.median else None
            holds = got is not None and got <= float(limit)
            print(f'{"ok  " if holds else "FAIL"} {measure.key}: berth / {who} = {got and round(got, 2)}, at most {limit}')
            good = good and holds
    return good


class Said:
    """What is printed, kept for bench.txt."""

    def __init__(self):
        self.lines = []

    def __call__(self, text):
        self.lines.append(text)
        print(text, flush=True)


def main():
    options, say = arguments(), Said()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    own_mounts()
    began = time.monotonic()
    place, groups = Place(options.build), []
    say(f'Linux {platform.release()}, {os.cpu_count()} CPUs; load {os.getloadavg()[0]:.1f}; at most {options.rounds} interleaved rounds')
    say(f'time budget {options.budget:.0f} s: ' + ', '.join(f'{k} {MEASURES[k].share * options.scale:.0f}' for k in options.measure))
    try:
        for key in options.measure:
            clock = Clock(MEASURES[key].share * options.scale)
            groups.append((MEASURES[key], MEASURES[key].take(place, options, clock)))
            say(report.table(*groups[-1]) + f'\n  took {clock.took():.0f} s of {clock.seconds:.0f}')
    finally:
        place.close()
    targets, seconds = judged(groups), time.monotonic() - began
    say('\nwhat the issues ask for')
    for t in targets:
        say(f'  {"met   " if t["met"] else "MISSED"}  {t["measure"]}: {t["text"]}')
    say(f'\n{seconds:.0f} s of a budget of {options.budget:.0f}')
    for name, text in (('bench.txt', '\n'.join(say.lines) + '\n'), ('bench.svg', report.svg(groups)),
                       ('bench.json', json.dumps(report.as_json(groups, options, targets, seconds), indent=1) + '\n')):
        with open(os.path.join(options.build, name), 'w') as f:
            f.write(text)
    print(f'{options.build}/bench.txt  {options.build}/bench.json  {options.build}/bench.svg')
    return 0 if gates(groups, options.gate) else 1


sys.exit(main())
