# SPDX-License-Identifier: Apache-2.0
"""
Images, for bench.py: importing one beside umoci, skopeo with umoci, podman and tar; what a further sandbox costs; peak memory;
how a start grows with the number of layers.

One image of 100 MiB in 10,000 files, once in five layers and once in one, each time into a fresh directory.  Two places: on
memory, which shows the work alone, and on disk with `sync -f` at the end of each one's run (berth does that itself), which
shows what a user waits for.
"""
import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile

import cold
import peers
from figures import LEAST_ROUNDS, Measure, absent, in_turn, row
from living import sandboxes

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '..', 'lib'))
import ocilayout as oci  # noqa: E402

FIVE = tuple((f'p{k}', 2000, 20 << 20) for k in range(5))
ONE = (('one', 10000, 100 << 20),)


# ---- input ------------------------------------------------------------------------------

def make_layer(rng, words, name, files, total):
    """A tar of so many files and bytes, text-like: it compresses to about two thirds."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=tarfile.PAX_FORMAT) as t:
        sizes = [rng.lognormvariate(0, 1.3) for _ in range(files)]
        scale = total / sum(sizes)
        pool = b''.join(rng.choice(words) for _ in range(600000))
        for i, s in enumerate(sizes):
            d = f'usr/lib/{name}/d{i // 40}'
            if i % 40 == 0:
                info = tarfile.TarInfo(d)
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                t.addfile(info)
            info = tarfile.TarInfo(f'{d}/file{i}.py')
            info.size, info.mode, info.mtime = int(s * scale) + 1, 0o644, 1700000000 + i
            at = rng.randrange(len(pool))
            data = (pool[at:] + pool * (info.size // len(pool) + 1))[:info.size]
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def busybox_layer():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w') as t:
        t.add(peers.static_busybox(), 'bin/busybox')
        for applet in ('sh', 'true'):
            info = tarfile.TarInfo('bin/' + applet)
            info.type, info.linkname = tarfile.SYMTYPE, 'busybox'
            t.addfile(info)
    return out.getvalue()


def small_layer(n):
    return oci.tar_bytes([(f'etc/layer{n}', {}, str(n).encode())])


def layout(place, name, layers, first=()):
    """The path of an OCI layout with these layers ((name, files, bytes) each) after those tars; made in a child, as it takes memory."""
    path = os.path.join(place.top, name)
    if os.path.exists(path):
        return path
    pid = os.fork()
    if not pid:
        try:
            rng = random.Random(5)
            words = [bytes(rng.randrange(256) for _ in range(rng.randrange(3, 12))) for _ in range(4000)]
            oci.Layout(path).image([*first, *(make_layer(rng, words, *x) for x in layers)])
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1]:
        raise RuntimeError('the input could not be made')
    return path


# ---- unpacking -----------------------------------------------------------------------------

def contenders(place, source, single, sync):
    """{key: shell script with $D for the output directory}, and why the others are missing."""
    image = os.path.join(place.build, 'berth-image')
    flush = 'sync -f $D' if sync else ':'
    out = {'berth': f'{image} --store $D/store import -q {source} x:t'}
    absences = {k: 'not installed' for k in ('umoci', 'skopeo', 'podman') if not shutil.which(k)}
    if 'umoci' not in absences:
        out['umoci unpack'] = f'umoci unpack --image {source}:t $D/umoci && {flush}'
        if 'skopeo' not in absences:
            out['skopeo copy, umoci unpack'] = f'skopeo copy -q oci:{source}:t oci:$D/copy:t && umoci unpack --image $D/copy:t $D/umoci && {flush}'
    if 'podman' not in absences:
        # it leaves a mount behind: in a mount namespace that goes with it
        out['podman pull'] = f'unshare -m podman --root $D/podman --runroot $D/run --storage-driver overlay pull -q oci:{source}:t && {flush}'
    if single:
        blobs = source + '/blobs/sha256'
        layer = max((os.path.join(blobs, n) for n in os.listdir(blobs)), key=os.path.getsize)
        out['floor: tar -xz'] = f'tar -C $D -xzf {layer} && {flush}'
    return out, absences


def once(place, script, where):
    """(wall us, cpu us, peak KiB) or what it said; by drive.c, whose own memory is too small to be taken for the other's."""
    d = tempfile.mkdtemp(dir=where)
    err = os.path.join(place.top, 'stderr.unpack')
    try:
        got = subprocess.run([os.path.join(place.build, 'bench/drive'), '1', '0', '0', '600', '600', '1', ':', 'x', '-', err, '1',
                              '/bin/sh', '-c', 'exec 2>&1 >/dev/null; ' + script], env=dict(os.environ, D=d), stdout=subprocess.PIPE, text=True, check=True)
        _, _, wall_ns, status, cpu_us, peak = got.stdout.split()
        if status == '0':
            return int(wall_ns) / 1e3, int(cpu_us), int(peak)
        with open(err, errors='replace') as f:
            return f'FAILED: status {status}: ' + (f.read().strip()[-160:] or 'said nothing')
    finally:
        shutil.rmtree(d, ignore_errors=True)


def unpack(layers, on_disk):
    def take(place, options, clock):
        source = layout(place, 'five' if layers is FIVE else 'one', layers)
        where = place.top if on_disk else tempfile.mkdtemp(prefix='berth-bench.', dir='/dev/shm')
        scripts, absences = contenders(place, source, layers is ONE, on_disk)
        got, failed = {k: [] for k in scripts}, {}
        try:
            for _ in clock.rounds(max(LEAST_ROUNDS, options.rounds // 40), 2):
                for k in scripts:
                    r = once(place, scripts[k], where) if k not in failed else None
                    if isinstance(r, str):
                        failed[k] = r
                    elif r:
                        got[k].append(r)
        finally:
            if not on_disk:
                shutil.rmtree(where, ignore_errors=True)
        rows = [absent(k, failed[k]) if k in failed else
                row(k, [g[0] for g in got[k]], f'peak {max(g[2] for g in got[k]) / 1024:.0f} MiB', [g[1] for g in got[k]]) for k in scripts]
        return rows + [absent(k, why) for k, why in absences.items()]
    return take


def peak(place, options, clock):
    """Peak memory of an import, the largest of its processes, at two sizes."""
    rows = []
    for mib, files in ((100, 10000), (options.peak_mib, 20000)):
        source = layout(place, f'peak{mib}', tuple((f'm{k}', files // 8, (mib << 20) // 8) for k in range(8)))
        r = once(place, contenders(place, source, False, True)[0]['berth'], place.top)
        shutil.rmtree(source)
        rows.append(absent('berth', r) if isinstance(r, str) else row('berth' if not rows else f'berth, {mib} MiB', [r[2]], f'image of {mib} MiB'))
    return rows


def du(path):
    return int(subprocess.run(['du', '-s', '-B1', path], stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0])


def further(place, options, clock):
    """The second and each later sandbox of an image of 100 MiB: time, and bytes on disk, of which none may be a copy."""
    source = layout(place, 'run-it', ONE, [busybox_layer()])
    with sandboxes(place) as berth:
        state = berth.env['BERTH_STATE_DIR']
        berth.call('image', 'import', source, 'x:t')
        berth.call('create', 'x:t')
        store, boxes = du(state + '/store'), du(state + '/sandboxes')
        n = max(5, min(50, options.rounds // 4))
        took = in_turn({'berth': lambda: berth.call('create', 'x:t') and None}, n, clock, warmup=0)['berth']
        each = (du(state + '/sandboxes') - boxes) / len(took)
        note = f'{du(state + "/store") - store} bytes more in the store, {each / 1024:.0f} KiB each for its own writable layer'
    return [row('berth', took, note)]


# ---- layers ---------------------------------------------------------------------------------

def layers(place, options, clock):
    """Cold runs of images that differ in the number of their layers; podman's beside them."""
    with sandboxes(place) as berth:
        podman = peers.engine(place, 'podman')
        all_of_them = []
        for n in options.layers:
            source = layout(place, f'layers{n}', (), [busybox_layer(), *(small_layer(k) for k in range(n - 1))])
            berth.call('image', 'import', '-q', source, f'l{n}:t')
            all_of_them.append(cold.berth(place, 'berth' if n == options.layers[0] else f'berth, {n} layers', f'l{n}:t', '/bin/true'))
            if podman.why:
                continue
            pulled = podman.call('pull', '-q', f'oci:{source}:t')
            if pulled.returncode:
                all_of_them.append(peers.Contender(f'podman, {n} layers', None, 'FAILED: ' + pulled.stderr.decode(errors='replace').strip()[-120:]))
                continue
            argv = podman.argv(*podman.run_words(), pulled.stdout.decode().split()[-1], '/bin/true')
            all_of_them.append(peers.Contender(f'podman, {n} layers', argv, every=2 * peers.SLOW))
        rows = cold.drive(place, 'layers', all_of_them, options, clock)
        for n in options.layers:
            berth.call('image', 'rm', f'l{n}:t')
    return [r._replace(note=f'{options.layers[0]} layer') if r.key == 'berth' and r.median else r for r in rows]


MEASURES = (
    Measure('unpack-five', 'import of 100 MiB, 10,000 files, five layers; on memory', 50, unpack(FIVE, False)),
    Measure('unpack-one', 'the same in one layer; on memory', 50, unpack(ONE, False)),
    Measure('unpack-five-disk', 'import of 100 MiB, 10,000 files, five layers; on disk, written out', 60, unpack(FIVE, True)),
    Measure('unpack-one-disk', 'the same in one layer; on disk, written out', 60, unpack(ONE, True)),
    Measure('unpack-peak', 'peak memory of an import, its largest process', 40, peak, 'KiB'),
    Measure('second-sandbox', 'a further sandbox of an image of 100 MiB', 15, further),
    Measure('growth-layers', 'cold run by the number of layers', 40, layers),
)
