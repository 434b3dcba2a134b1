# SPDX-License-Identifier: Apache-2.0
"""What checkpoints take on disk: shown, and bounded for a sandbox and for the host."""
import json
import os

import berthtest as b
from box import Box
from test_checkpoint import MIB, checkpoint, ids, listed, needs_file, sh, xfs


def config(text):
    return {"BERTH_CONFIG": b.write(b.tmp("berth.toml"), text)}


def fill(x, name, mib, **kw):
    sh(x, f"head -c {mib * MIB} /dev/urandom > /{name}; sync", ok=True, **kw)


def part(env=None):
    return json.loads(b.berth("system", "df", "--json", ok=True, env=env).out)["checkpoints"]


def test_the_oldest_go_when_all_take_more_than_a_sandbox_may_have():
    env = config('[sandbox]\ncheckpoint_size = "40m"\n')
    with Box(env=env) as x:
        needs_file(x)
        fill(x.id, "a", 8, env=env)
        for _ in range(3):
            checkpoint(x.id, env=env)
        # each is a copy of more than 8 MiB, or shares them
        fill(x.id, "a", 16, env=env)
        for _ in range(3):
            checkpoint(x.id, env=env)
            told = listed(x.id, env=env)
            assert told["bytes"] <= told["limit_bytes"] == 40 * MIB, told
        assert ids(x.id, env=env)[-1] == "k6" and "k1" not in ids(x.id, env=env)
        # more than all of it: refused, and the older ones stay
        before = ids(x.id, env=env)
        fill(x.id, "b", 40, env=env)
        b.one_line_error(b.berth("checkpoint", x.id, env=env), 125, "may take 40 MiB", "hint:")
        assert ids(x.id, env=env) == before
        assert sh(x.id, "rm /b; sync; wc -c < /a", ok=True, env=env).out == f"{16 * MIB}\n"


def test_the_sum_of_all_sandboxes_is_bounded_and_a_removal_gives_room():
    env = config('[manager]\ncheckpoints_size = "40m"\n')
    with Box(env=env) as x, Box(env=env) as y:
        needs_file(x)
        fill(x.id, "a", 24, env=env)
        fill(y.id, "a", 24, env=env)
        checkpoint(x.id, env=env)
        r = b.one_line_error(b.berth("checkpoint", y.id, env=env), 125, "those of other sandboxes take", "hint:")
        assert ids(y.id, env=env) == [], r
        assert sh(y.id, "echo on", ok=True, env=env).out == "on\n"
        b.berth("checkpoint", "rm", x.id, "k1", ok=True, env=env)
        checkpoint(y.id, env=env)
        b.one_line_error(b.berth("checkpoint", x.id, env=env), 125, "those of other sandboxes take", "hint:")
        # a sandbox that goes takes its part with it
        b.berth("rm", "-f", y.id, ok=True, env=env)
        checkpoint(x.id, env=env)


def test_df_and_the_list_tell_what_checkpoints_take():
    with Box() as x:
        needs_file(x)
        before = part()
        fill(x.id, "a", 12)
        checkpoint(x.id)
        b.berth("exec", x.id, "rm", "/a", ok=True)
        fill(x.id, "c", 4)
        told, after = listed(x.id), part()
        assert told["held_bytes"] >= 12 * MIB and told["bytes"] >= told["held_bytes"], told
        assert after["count"] == before["count"] + 1, after
        assert after["bytes"] - before["bytes"] == told["held_bytes"], (after, told)
        text = b.berth("checkpoints", x.id, ok=True).out.splitlines()[-1]
        assert text.startswith("together ") and "8192.0M" in text, text
        assert "checkpoints alone" in b.berth("system", "df", ok=True).out


@b.deadline(120)
def test_blocks_that_checkpoints_share_count_once():
    with xfs() as (env, _):
        b.berth("create", "--name", "x", "--disk", "200m", "host", env=env, ok=True)
        fill("x", "big", 64, env=env)
        for _ in range(4):
            checkpoint("x", env=env)
        told = listed("x", env=env)
        assert 64 * MIB <= told["bytes"] < 80 * MIB and told["held_bytes"] < 8 * MIB, told
        # written anew, the blocks of before are the checkpoints' alone, but for those that ext4 had no need to write over
        fill("x", "big", 64, env=env)
        told = listed("x", env=env)
        assert 48 * MIB <= told["held_bytes"] < 80 * MIB and told["held_bytes"] <= told["bytes"], told
        checkpoint("x", env=env)
        assert 112 * MIB <= listed("x", env=env)["bytes"] < 150 * MIB
        # the fifth fits beside the sixth, and no other
        env.update(config('[sandbox]\ncheckpoint_size = "150m"\n'))
        b.berth("restart", "x", env=env, ok=True)
        b.berth("exec", "x", "rm", "/big", env=env, ok=True)
        fill("x", "more", 40, env=env)
        checkpoint("x", env=env)
        told = listed("x", env=env)
        assert told["bytes"] <= 150 * MIB and ids("x", env=env) == ["k5", "k6"], told


def test_a_size_that_is_no_size_is_refused():
    for text in ('[sandbox]\ncheckpoint_size = "0"\n', '[manager]\ncheckpoints_size = "many"\n'):
        b.one_line_error(b.berth("ps", env=config(text)), 125, "checkpoint")
    assert os.path.isdir(b.root())
