# SPDX-License-Identifier: Apache-2.0
"""A scratch place for the bench with one busybox root file system, berth with a state of its own, and the peers."""
import collections
import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import tempfile

LIMIT_S = 30
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x00020000, 1 << 14, 1 << 18
# `argv` None: not run, for the reason in `note`.  `mntns`: a /proc/PID/ns/mnt to run in.  `every`: takes part in each nth round.
Contender = collections.namedtuple('Contender', 'key argv note mntns every', defaults=('', '-', 1))
SLOW = 5            # of engines, whose start takes half a second
APPLETS = ('true', 'sh', 'cat', 'sleep', 'rm', 'echo')


def missing(key):
    return Contender(key, None, 'not installed')


def say(*argv):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def static_busybox():
    busybox = shutil.which('busybox')
    if not busybox or 'statically' not in say('file', '-L', busybox):
        raise SystemExit('bench: needs a static busybox; hint: apt-get install busybox-static file')
    return busybox


class Place:
    def __init__(self, build):
        self.build = build
        self.top = tempfile.mkdtemp(prefix='berth-bench.', dir='/var/tmp')
        os.chmod(self.top, 0o755)
        self.rootfs = os.path.join(self.top, 'rootfs')
        self.holders, self.v2, self.net, self.ends = [], None, None, []
        self.images = {}
        busybox = static_busybox()
        for d in ('bin', 'proc', 'sys', 'dev', 'tmp', 'etc', 'run', 'usr', 'workspace'):
            os.makedirs(os.path.join(self.rootfs, d))
        shutil.copy(busybox, os.path.join(self.rootfs, 'bin/busybox'))
        for name in APPLETS:
            os.symlink('busybox', os.path.join(self.rootfs, 'bin', name))

    def bundle(self, name, tool, change):
        """An OCI bundle with the tool's own default configuration, but for what must differ."""
        d = os.path.join(self.top, name)
        os.makedirs(d, exist_ok=True)
        path = os.path.join(d, 'config.json')
        if os.path.exists(path):
            os.unlink(path)
        subprocess.run([tool, 'spec'], cwd=d, check=True)
        with open(path) as f:
            config = json.load(f)
        config['process'].update(terminal=False, args=['/bin/true'])
        config['root']['path'] = self.rootfs
        change(config)
        with open(path, 'w') as f:
            json.dump(config, f)
        return d

    def hold(self, *namespace, script):
        """A namespace set up by `script`, held by a process that ends with us; its pid, or None."""
        p = subprocess.Popen(['unshare', *namespace, 'setpriv', '--pdeathsig', 'KILL', 'sh', '-c', script + ' && echo ready && exec sleep infinity'],
                             stdout=subprocess.PIPE)
        self.holders.append(p)
        return p.pid if p.stdout.readline() == b'ready\n' else None

    def cgroup2_mntns(self):
        """A mount namespace whose /sys/fs/cgroup is cgroup v2 alone, or "-"."""
        if self.v2 is None:
            pid = self.hold('-m', '--propagation', 'private', script='mount -t cgroup2 cgroup2 /sys/fs/cgroup')
            self.v2 = f'/proc/{pid}/ns/mnt' if pid else '-'
        return self.v2

    def network(self):
        """--net=... of a namespace that forwards, or None."""
        if self.net is None:
            pid = self.hold('-n', script='ip link set lo up && echo 1 >/proc/sys/net/ipv4/ip_forward')
            self.net = pid and f'--net=/proc/{pid}/ns/net'
        return self.net

    def close(self):
        for end in reversed(self.ends):
            end()
        for holder in self.holders:
            holder.kill()
            holder.wait()
            holder.stdout.close()
        shutil.rmtree(self.top, ignore_errors=True)


def own_mounts():
    """From now on what is mounted is seen by us alone, and gone with us: podman leaves mounts behind."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(None, b'/', None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), 'a mount namespace of our own')


@contextlib.contextmanager
def inside(mntns):
    """What is started meanwhile is in that mount namespace; the bench has one thread, so it may go there and come back."""
    if mntns == '-':
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    with open('/proc/self/ns/mnt', 'rb') as home, open(mntns, 'rb') as there:
        if libc.setns(there.fileno(), CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), 'setns')
        try:
            yield
        finally:
            if libc.setns(home.fileno(), CLONE_NEWNS):
                raise OSError(ctypes.get_errno(), 'setns back')


class Berth:
    """berth with a state of its own in the place; `count` of them may be made."""

    def __init__(self, place):
        self.program = os.path.join(place.build, 'berth')
        self.top = os.path.join(place.top, 'berth')
        self.parent = f'berth-bench{os.getpid()}'
        os.makedirs(self.top, exist_ok=True)
        self.env = dict(os.environ, BERTH_STATE_DIR=self.top + '/state', BERTH_RUN_DIR=self.top + '/run', BERTH_IDS_DIR=self.top + '/hostids',
                        BERTH_CGROUP_PARENT=self.parent,
                        BERTH_CONFIG=self.top + '/berth.toml')
        self.configure('')

    def configure(self, more):
        with open(self.env['BERTH_CONFIG'], 'w') as f:
            f.write('[manager]\nmax_sandboxes = 4000\n' + more)

    def call(self, *args, **kw):
        kw.setdefault('stdin', subprocess.DEVNULL)
        done = subprocess.run([self.program, *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
        if done.returncode:
            raise RuntimeError(f'berth {args}: status {done.returncode}: {done.stderr[-300:]!r}')
        return done.stdout.decode(errors='replace').strip()

    def start(self, *args, **kw):
        return subprocess.Popen([self.program, *args], env=self.env, **kw)

    def record(self, box):
        with open(f'{self.top}/run/sandboxes/{box}/record.json') as f:
            return json.load(f)

    def clear(self):
        ids = self.call('ps', '-a', '-q').split()
        for n in range(0, len(ids), 50):
            self.call('rm', '-f', *ids[n:n + 50])
        self.call('gc')


# ---- the OCI runtimes ----------------------------------------------------------------

class Runtime:
    """runc or crun, each with its own `spec`: `run`, `start` a container that sleeps, `exec`, `delete`."""

    def __init__(self, place, tool):
        self.key, self.program, self.place = tool, shutil.which(tool), place
        self.hybrid = not os.path.exists('/sys/fs/cgroup/cgroup.controllers')
        self.mntns, self.note = '-', ''
        if tool == 'crun':
            # on a hybrid host it wants a pure v2 tree, and without the right to raise RLIMIT_MEMLOCK no device rules
            self.note = 'no limits or device rules' + (', in a mount namespace with cgroup v2' if self.hybrid else '')
            self.mntns = place.cgroup2_mntns() if self.hybrid else '-'

    def bundle(self, name, *args):
        def change(config):
            config['process'].update(args=list(args))
            if self.key == 'crun':
                config['linux'].pop('resources', None)
        return self.place.bundle(f'{self.key}-{name}', self.program, change)

    def cold(self):
        if not self.program:
            return missing(self.key)
        return Contender(self.key, [self.program, 'run', '-b', self.bundle('true', '/bin/true'), '%n'], self.note, self.mntns)

    def name(self, what):
        return f'berth-bench-{self.key}-{os.getpid()}-{what}'

    def argv_start(self, bundle, name):
        return [self.program, 'run', '-d', '-b', bundle, self.name(name)]

    def call(self, *argv, **kw):
        with inside(self.mntns):
            return subprocess.run([self.program, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)

    def delete(self, name):
        self.call('delete', '-f', self.name(name))

    def sleeper(self, name):
        """A container that sleeps; whether it could be made."""
        if not self.program:
            return False
        with inside(self.mntns):
            made = subprocess.run(self.argv_start(self.bundle('sleep', '/bin/sleep', '100000'), name), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return made.returncode == 0


# ---- podman and docker ----------------------------------------------------------------

class Engine:
    """podman or docker, only where they work; the image is theirs alone and goes with the place."""

    def __init__(self, place, tool):
        self.key, self.program, self.why = tool, shutil.which(tool), 'not installed'
        self.options = []
        if not self.program:
            return
        if tool == 'podman':
            # nothing of what the machine's podman has is touched
            self.options = ['--root', place.top + '/podman', '--runroot', place.top + '/podman-run', '--cgroup-manager', 'cgroupfs']
            if not os.path.exists('/sys/fs/cgroup/cgroup.controllers') and shutil.which('runc'):
                self.options += ['--runtime', shutil.which('runc')]
        self.image = f'berth-bench-{os.getpid()}:latest'
        self.why = self.prepare(place)
        if not self.why:
            place.ends.append(lambda: self.call('rm', '-fa') and self.call('rmi', '-f', self.image) if tool == 'podman'
                              else self.call('rmi', '-f', self.image))

    def prepare(self, place):
        """Why it cannot take part, or None."""
        if self.call('info').returncode:
            return f'installed, but `{self.key} info` fails'
        tar = subprocess.Popen(['tar', '-C', place.rootfs, '-cf', '-', '.'], stdout=subprocess.PIPE)
        done = self.call('import', '-', self.image, stdin=tar.stdout)
        tar.stdout.close()
        if tar.wait() or done.returncode:
            return 'import failed: ' + done.stderr.decode(errors='replace').strip()[-100:]
        tried = self.call(*self.run_words(), self.image, '/bin/true')
        return 'run failed: ' + tried.stderr.decode(errors='replace').strip()[-100:] if tried.returncode else None

    # limits a root without CAP_SYS_RESOURCE may set
    @staticmethod
    def run_words(*more):
        return ['run', '--rm', '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1000:1000', *(more or ('--network', 'none'))]

    def argv(self, *words):
        return [self.program, *self.options, *words]

    def call(self, *words, stdin=subprocess.DEVNULL):
        return subprocess.run(self.argv(*words), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def cold(self, *more):
        if self.why:
            return Contender(self.key, None, self.why)
        return Contender(self.key, self.argv(*self.run_words(*more), self.image, '/bin/true'), every=SLOW)

    def sleeper(self):
        """A container that sleeps: its id, or None."""
        if self.why:
            return None
        words = [w for w in self.run_words() if w != '--rm']
        made = self.call(*words, '-d', self.image, '/bin/sleep', '100000')
        return None if made.returncode else made.stdout.decode().split()[-1]


def engine(place, tool):
    """Made once a place: the import takes a second."""
    if tool not in place.images:
        place.images[tool] = Engine(place, tool)
    return place.images[tool]


# ---- those that run one command and are gone -------------------------------------------

def bwrap(place):
    tool = shutil.which('bwrap')
    if not tool:
        return missing('bwrap')
    return Contender('bwrap', [tool, '--unshare-all', '--bind', place.rootfs, '/', '--proc', '/proc', '--dev', '/dev',
                               '/bin/true'], '--unshare-all, no limits')


def nsjail(place):
    tool = shutil.which('nsjail')
    if not tool:
        return missing('nsjail')
    return Contender('nsjail', [tool, '-Mo', '--really_quiet', '--chroot', place.rootfs, '--', '/bin/true'])


def isolate(place):
    tool = shutil.which('isolate')
    if not tool:
        return missing('isolate')
    if subprocess.run([tool, '--init'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return Contender('isolate', None, 'installed, but `isolate --init` fails')
    place.ends.append(lambda: subprocess.run([tool, '--cleanup'], stderr=subprocess.DEVNULL))
    return Contender('isolate', [tool, '--silent', f'--dir=/bin={place.rootfs}/bin', '--run', '--', '/bin/true'], 'in a box made before')


def unshare(place):
    tool = shutil.which('unshare')
    if not tool:
        return missing('unshare')
    return Contender('unshare', [tool, '--user', '--map-root-user', '--pid', '--fork', '--mount', '--net', '--ipc', '--uts',
                                 '--cgroup', '--root=' + place.rootfs, '--mount-proc=/proc', '/bin/true'],
                     'no overlay, no limits')
