# SPDX-License-Identifier: Apache-2.0
"""What the measures of bench.py share: rows, percentiles, the time each may take, work done in turn."""
import collections
import random
import time

# `median` and its like are in us, or in the measure's own unit; `cpu` is us of processor time.
Result = collections.namedtuple('Result', 'key n median p10 p99 cpu note')
# `take(place, options, clock)` returns the rows; `share`: seconds of the default budget.
# curve: its rows are 'NAME, N others' and are drawn over N.
Measure = collections.namedtuple('Measure', 'key title share take unit curve', defaults=('ms', False))
LEAST_ROUNDS = 3


def percentile(ordered, p):
    return ordered[min(len(ordered) - 1, int(len(ordered) * p / 100))]


def row(key, values, note='', cpu=None):
    if not values:
        return Result(key, 0, None, None, None, None, note)
    v = sorted(values)
    return Result(key, len(v), percentile(v, 50), percentile(v, 10), percentile(v, 99), percentile(sorted(cpu), 50) if cpu else None, note)


def absent(key, why):
    return Result(key, 0, None, None, None, None, why)


class Clock:
    """The time a measure may take.  What it prepares counts; a few rounds are taken even when it is over."""

    def __init__(self, seconds):
        self.began, self.seconds = time.monotonic(), seconds

    def took(self):
        return time.monotonic() - self.began

    def left(self):
        return self.seconds - self.took()

    def rounds(self, most, least=LEAST_ROUNDS):
        """0, 1, ... until `most` are done or the time is over."""
        for n in range(most):
            if n >= least and self.left() <= 0:
                return
            yield n


def in_turn(work, rounds, clock, warmup=2, every=None):
    """
    Calls each of {key: function} once a round, in an order shuffled anew; {key: [us]}.  A function returns None or what it
    measured.  `every`: {key: n} for the slow ones, that take part in each nth round only.
    """
    took = collections.defaultdict(list)
    keys = list(work)
    for n in clock.rounds(rounds + warmup, LEAST_ROUNDS + warmup):
        random.shuffle(keys)
        for k in keys:
            if n >= warmup and (n - warmup) % (every or {}).get(k, 1):
                continue
            began = time.perf_counter_ns()
            told = work[k]()
            us = (time.perf_counter_ns() - began) / 1e3
            if n >= warmup:
                took[k].append(us if told is None else told)
    return took
