# SPDX-License-Identifier: Apache-2.0
"""S41: the folders that a tenant has in the storage (storage_path) count for it, before they are sent."""
import os
import threading

import berthtest as b
import daemon
from managed import FAST, Managed, refused

COST = 15


def config(where, disk=16, most=8):
    return (f'[pool.base]\nimage = "host"\noptions = ["disk={disk}m"]\n[tenant]\nstored_bytes = "{most}m"\n[storage]\nurl = "file:{where}"\n' + FAST)


def bytes_there(where):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(where) for f in files)



def fill(m, name, mib):
    out, failed = m.shell(name, f"rm -rf *; head -c {mib << 20} /dev/urandom > data")
    assert not failed, out


def test_folders_of_a_tenant_are_bounded_and_counted_once():
    where = b.tmpdir("store", 0o700)
    with Managed(config(where)) as d:
        alice = d.client(daemon.TENANT)
        one, two = alice.create(storage_path="one"), alice.create(storage_path="two")
        fill(alice, one, 5)
        for _ in range(3):      # the same folder again counts once
            assert alice.native(f"sandboxes/{one}/upload").ok
        before = bytes_there(where)
        assert 5 << 20 < before < 6 << 20, before
        fill(alice, two, 5)
        for _ in range(2):
            r = alice.native(f"sandboxes/{two}/upload", ok=False)
            assert r.status_code == 429 and "[tenant] stored_bytes" in r.text, r.text
        assert bytes_there(where) == before     # nothing of what was refused is left
        refused(429, alice.release, identity=two)
        assert alice.get_status(identity=two) in ("exited", "releasing"), alice.get_status(identity=two)     # and is not lost
        # another tenant has its own share; the operator none
        for m, path in ((d.client(daemon.OTHER), "one"), (d.manager, "big")):
            box = m.create(storage_path=path)
            fill(m, box, 7)
            assert m.native(f"sandboxes/{box}/upload").ok
        # room comes back when a folder shrinks
        fill(alice, one, 1)
        assert alice.native(f"sandboxes/{one}/upload").ok
        assert alice.release(identity=two) is True
        assert sum(os.path.getsize(os.path.join(t, f)) for t, _, files in os.walk(where + "/tenants/alice") for f in files) < 7 << 20


def test_holes_and_equal_pieces_take_no_room():
    where = b.tmpdir("store", 0o700)
    with Managed(config(where)) as d:
        alice = d.client(daemon.TENANT)
        box = alice.create(storage_path="holes")
        out, failed = alice.shell(box, "truncate -s 1G hole; head -c 4M /dev/urandom > a; cp a b; cp a c")
        assert not failed, out
        assert alice.native(f"sandboxes/{box}/upload").ok
        assert bytes_there(where) < 5 << 20


@b.deadline(180)
def test_a_folder_that_two_store_at_once_counts_for_all_of_it():
    """The small one must not count down what the large one still sends."""
    where = b.tmpdir("store", 0o700)
    with Managed(config(where, 64, 40)) as d:
        alice, other = d.client(daemon.TENANT), d.client(daemon.TENANT)
        small, large, more = (alice.create(storage_path=p) for p in ("same", "same", "more"))
        fill(alice, small, 1)
        for n in range(b.times(5, 20)):
            fill(alice, large, 30)
            told = []
            thread = threading.Thread(target=lambda t=told: t.append(other.native(f"sandboxes/{large}/upload", ok=False).status_code))
            thread.start()
            for _ in range(1 + n % 3):
                if thread.is_alive():
                    assert alice.native(f"sandboxes/{small}/upload").ok
            thread.join()
            assert told == [200], told
            fill(alice, more, 30)
            alice.native(f"sandboxes/{more}/upload", ok=False)
            assert bytes_there(where) < 41 << 20, bytes_there(where)
            fill(alice, more, 0)
            assert alice.native(f"sandboxes/{more}/upload").ok
        fill(alice, more, 0)
        fill(alice, large, 0)
