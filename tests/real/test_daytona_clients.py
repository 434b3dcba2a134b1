# SPDX-License-Identifier: Apache-2.0
"""berthd under Daytona's own SDKs of npm, unmodified."""
import json

import berthtest as b
import npmkit
from daemon import TENANT, TOKEN, Daemon

COST = 60
NEW = "@daytona/sdk@0.216.0"
LEGACY = "@daytonaio/sdk@0.218.0"
MIDDLE = "@daytonaio/sdk@0.150.0"
OLD = "@daytonaio/sdk@0.25.6"


def run(package, text, *args, token=TENANT, config="", **more):
    place = npmkit.packages(package)
    name = package.rsplit("@", 1)[0]
    with Daemon(config, tcp=True) as d:
        url = f"http://127.0.0.1:{d.port}/api"
        said = npmkit.script(place, text.replace("PACKAGE", name), *args, seconds=180,
                             env={"DAYTONA_API_URL": url, "DAYTONA_API_KEY": token, "DAYTONA_TARGET": "us"}, **more)
        assert said.endswith("done\n"), said
        left = json.loads(b.berth("ps", "-a", "--json", ok=True).out)
        assert left == [], left


LIFE = """
import {Daytona, DaytonaNotFoundError} from 'PACKAGE'
import assert from 'node:assert/strict'
const daytona = new Daytona()
const box = await daytona.create({name: 'one', labels: {a: '1', 'b c': 'd&e'}, envVars: {FOO: 'bar'}, resources: {cpu: 1, memory: 1, disk: 1},
  autoStopInterval: 5, autoArchiveInterval: 60, autoDeleteInterval: 120})
assert.deepEqual([box.state, box.name, box.cpu, box.memory, box.disk, box.autoStopInterval, box.autoArchiveInterval, box.autoDeleteInterval],
  ['started', 'one', 1, 1, 1, 5, 60, 120])
assert.deepEqual([box.labels, box.env], [{a: '1', 'b c': 'd&e', 'code-toolbox-language': 'python'}, {FOO: 'bar'}])
const ran = await box.process.executeCommand('echo out; echo err >&2; echo $FOO $A; pwd; exit 3', '/tmp', {A: 'b'})
assert.deepEqual([ran.exitCode, ran.result], [3, 'out\\nerr\\nbar b\\n/tmp\\n'])
await assert.rejects(box.process.executeCommand('sleep 100', undefined, undefined, 1), /timeout/)
assert.equal((await box.process.executeCommand('nohup sleep 100 >/dev/null 2>&1 & echo $((1+1)) [[ a ]]')).result, '2 [[ a ]]\\n')
const code = await box.process.codeRun('import sys; print(6 * 7, sys.argv[1:])', {argv: ['x']})
assert.deepEqual([code.exitCode, code.result], [0, "42 ['x']\\n"])
assert.equal((await box.process.codeRun('1/0')).exitCode, 1)
assert.equal(await box.getWorkDir(), '/workspace')

assert.deepEqual(await box.setLabels({x: 'y'}), {x: 'y'})
await box.setAutostopInterval(45); await assert.rejects(box.setAutostopInterval(0), /idle_timeout/); await box.setAutoArchiveInterval(30); await box.setAutoDeleteInterval(-1)
const again = await daytona.get(box.id)
assert.deepEqual([again.labels, again.autoStopInterval, again.autoArchiveInterval, again.autoDeleteInterval], [{x: 'y'}, 45, 30, -1])
assert.equal((await daytona.get('one')).id, box.id)
await assert.rejects(box.archive(), /not stopped/)
await box.process.executeCommand('echo kept > /root/f')
await box.refreshActivity()
await box.stop()
assert.equal(box.state, 'stopped')
await assert.rejects(box.process.executeCommand('true'), /not running/)
await box.archive()
assert.equal(box.state, 'archived')
const states = async q => { const out = []; for await (const s of daytona.list(q)) out.push([s.id, s.state]); return out }
assert.deepEqual(await states({labels: {x: 'y'}}), [[box.id, 'archived']])
assert.deepEqual(await states({labels: {x: 'z'}}), [])
assert.deepEqual(await states({states: ['started']}), [])
await box.start()
assert.equal(box.state, 'started')
assert.equal((await box.process.executeCommand('cat /root/f')).result, 'kept\\n')
const two = await daytona.create({language: 'javascript'})
assert.equal((await two.process.codeRun('console.log(6 * 7)')).exitCode, (await two.process.executeCommand('command -v node')).exitCode ? 127 : 0)
assert.equal((await states({limit: 1})).length, 2)
await two.stop(60, true)
assert.equal(two.state, 'stopped')
await two.delete()
const brief = await daytona.create({ephemeral: true})
await brief.stop()
await assert.rejects(daytona.get(brief.id), DaytonaNotFoundError)
await box.delete(60, true)
assert.deepEqual(await states(), [])
await assert.rejects(daytona.get('one'), DaytonaNotFoundError)
for (const more of [{resources: {gpu: 1}}, {secrets: {A: 'b'}}, {autoPauseInterval: 5}, {networkAllowList: 'nonsense'}])
  await assert.rejects(daytona.create(more), e => !/object Object/.test(e.message) && e.message.length > 10)
console.log('done')
process.exit(0)
"""


def test_the_life_of_a_sandbox():
    run(NEW, LIFE)


FILES = """
import {Daytona, DaytonaNotFoundError} from 'PACKAGE'
import assert from 'node:assert/strict'
import fs from 'node:fs'
const daytona = new Daytona()
const box = await daytona.create()
const f = box.fs
assert.equal(await box.getUserHomeDir(), '/root')
await f.uploadFile(Buffer.from('text'), 'dir/new/f.txt')
assert.equal((await f.downloadFile('dir/new/f.txt')).toString(), 'text')
assert.equal((await f.downloadFile('/workspace/dir/new/f.txt')).toString(), 'text')
const big = Buffer.alloc(50 << 20, 'z\\r\\n--')
await f.uploadFiles([{source: Buffer.from([0, 255, 1]), destination: '/tmp/b'}, {source: big, destination: '/tmp/big "quoted"'}])
assert.ok(Buffer.from(await f.downloadFile('/tmp/big "quoted"')).equals(big))
assert.deepEqual([...await f.downloadFile('/tmp/b')], [0, 255, 1])
await assert.rejects(f.downloadFile('/tmp/none'), DaytonaNotFoundError)
const many = await f.downloadFiles([{source: '/tmp/b'}, {source: '/tmp/none'}, {source: '/tmp'}, {source: 'dir/new/f.txt'}])
assert.deepEqual(many.map(m => !!m.error), [false, true, true, false], JSON.stringify(many))
assert.equal(many[3].result.toString(), 'text')
if (f.uploadFileStream) {
  const {Readable} = await import('node:stream')
  await f.uploadFileStream(Readable.from([Buffer.from('a'), Buffer.from('b')]), '/tmp/streamed')
  const parts = []; for await (const p of await f.downloadFileStream('/tmp/streamed')) parts.push(p)
  assert.equal(Buffer.concat(parts).toString(), 'ab')
}
await f.createFolder('/tmp/d/e', '750')
const info = await f.getFileDetails('/tmp/d/e')
assert.deepEqual([info.name, info.isDir, info.permissions, info.mode, info.owner], ['e', true, '0750', 'drwxr-x---', 'root'])
await f.moveFiles('/tmp/b', '/tmp/d/c')
await f.setFilePermissions('/tmp/d/c', {mode: '604', owner: 'root', group: 'root'})
assert.equal((await f.getFileDetails('/tmp/d/c')).permissions, '0604')
assert.deepEqual((await f.listFiles('/tmp/d')).map(x => [x.name, x.isDir, x.size]).sort(), [['c', false, 3], ['e', true, (await f.getFileDetails('/tmp/d/e')).size]])
await f.uploadFile(Buffer.from('one\\ntwo needle: three\\nneedle'), '/tmp/d/e/x.py')
assert.ok((await f.listFiles('/tmp/d', {depth: 3})).some(x => x.path === '/tmp/d/e/x.py'))
assert.deepEqual(await f.findFiles('/tmp/d', 'needle'), [{file: '/tmp/d/e/x.py', line: 2, content: 'two needle: three'}, {file: '/tmp/d/e/x.py', line: 3, content: 'needle'}])
assert.deepEqual((await f.searchFiles('/tmp/d', '*.py')).files, ['/tmp/d/e/x.py'])
assert.deepEqual(await f.replaceInFiles(['/tmp/d/e/x.py', '/tmp/none'], 'needle', 'pin'), [{file: '/tmp/d/e/x.py', success: true, error: null},
  {file: '/tmp/none', success: false, error: (await f.replaceInFiles(['/tmp/none'], 'a', 'b'))[0].error}])
assert.equal((await f.downloadFile('/tmp/d/e/x.py')).toString(), 'one\\ntwo pin: three\\npin')
await assert.rejects(f.deleteFile('/tmp/d'), /directory/)
await f.deleteFile('/tmp/d', true)
await assert.rejects(f.getFileDetails('/tmp/d'), DaytonaNotFoundError)
await assert.rejects(f.listFiles('/tmp/d'), DaytonaNotFoundError)
await box.delete()
console.log('done')
process.exit(0)
"""


def test_files():
    run(NEW, FILES)


SESSIONS = """
import {Daytona, DaytonaNotFoundError} from 'PACKAGE'
import assert from 'node:assert/strict'
const daytona = new Daytona()
const box = await daytona.create({envVars: {FOO: 'bar'}})
const p = box.process
await p.createSession('s1')
await assert.rejects(p.createSession('s1'), /exists/)
const sh = async (command, more = {}) => await p.executeSessionCommand('s1', {command, ...more})
let r = await sh('cd /tmp; export A="x y"; B=local; f() { echo "f $1"; }; echo out; echo err >&2; exit_code() { return 3; }; exit_code')
assert.deepEqual([r.exitCode, r.stdout, r.stderr, r.output], [3, 'out\\n', 'err\\n', 'out\\nerr\\n'])
r = await sh('pwd; echo "$A" $B; f 1; echo $FOO')
assert.deepEqual([r.exitCode, r.stdout], [0, '/tmp\\nx y local\\nf 1\\nbar\\n'])
assert.equal((await sh('cat <<E\\nhere\\nE')).stdout, 'here\\n')
assert.equal((await sh("echo 'unfinished")).exitCode, 2)
assert.equal((await sh('exit 7')).exitCode, 7)
assert.equal((await sh('pwd')).stdout, '/tmp\\n')

const long = await sh('echo first; echo second >&2; read x; echo got $x; head -c 3000000 /dev/zero | tr "\\\\0" z; exit 5', {runAsync: true})
assert.equal(long.exitCode ?? undefined, undefined)
await assert.rejects(sh('true', {runAsync: true}), /runs a command/)
assert.equal((await p.getSessionCommand('s1', long.cmdId)).exitCode ?? undefined, undefined)
const outs = [], errs = []
const followed = p.getSessionCommandLogs('s1', long.cmdId, o => outs.push(o), x => errs.push(x))
const waiting = sh('echo after')     // its turn comes
await p.sendSessionCommandInput('s1', long.cmdId, 'it\\n')
await followed
assert.deepEqual([outs.join('').length, errs.join('')], [6 + 7 + 3000000, 'second\\n'])
assert.ok(outs.join('').startsWith('first\\ngot it\\nzzz'))
assert.equal((await waiting).stdout, 'after\\n')
const done = await p.getSessionCommand('s1', long.cmdId)
assert.equal(done.exitCode, 5)
assert.ok(done.command.startsWith('echo first'), done.command)
const logs = await p.getSessionCommandLogs('s1', r.cmdId)
assert.deepEqual([logs.stdout, logs.stderr], ['/tmp\\nx y local\\nf 1\\nbar\\n', ''])
const again = []
await p.getSessionCommandLogs('s1', r.cmdId, o => again.push(o), () => {})     // of one that has ended
assert.equal(again.join(''), '/tmp\\nx y local\\nf 1\\nbar\\n')

await p.createSession('server')
const server = await p.executeSessionCommand('server', {command: 'exec python3 -m http.server 8080', runAsync: true})
assert.deepEqual((await p.listSessions()).map(s => [s.sessionId, s.commands.length]).sort(), [['s1', 8], ['server', 1]])
assert.equal((await p.getSession('server')).commands[0].id, server.cmdId)
await p.deleteSession('server')
assert.equal((await p.executeCommand("ps ax | grep -c '[h]ttp.server'")).result, '0\\n')
await assert.rejects(p.getSession('server'), DaytonaNotFoundError)
await assert.rejects(p.executeSessionCommand('none', {command: 'true'}), DaytonaNotFoundError)
await assert.rejects(p.getSessionCommand('s1', 'none'), DaytonaNotFoundError)
await assert.rejects(p.createSession('a/b'), /malformed/)

const bytes = []; let shown; const shows = new Promise(r => { shown = r })
const text = () => Buffer.from(bytes).toString()
const pty = await p.createPty({id: 'p1', cols: 91, rows: 30, cwd: '/tmp', envs: {E: 'äé'}, onData: d => { bytes.push(...d); if (text().includes('40 100')) shown() }})
await pty.sendInput('stty size; pwd; echo $E\\n')
assert.deepEqual((await p.listPtySessions()).map(s => [s.id, s.cols, s.rows, s.cwd]), [['p1', 91, 30, '/tmp']])
while (!text().includes('30 91\\r')) await new Promise(r => setTimeout(r, 10))
const sized = await pty.resize(100, 40)
assert.deepEqual([sized.cols, sized.rows], [100, 40])
await pty.sendInput('stty size\\n')
await shows
assert.ok(/30 91\\r\\n\\/tmp\\r\\näé/.test(text()), text())
await pty.disconnect()
const second = await p.connectPty('p1', {onData: () => {}})     // it went on
await assert.rejects(p.createPty({id: 'p1', onData: () => {}}))
await second.sendInput('exit 4\\n')
assert.equal((await second.wait()).exitCode, 4)
assert.deepEqual(await p.listPtySessions(), [])
const killed = await p.createPty({id: 'p2', onData: () => {}})
await p.killPtySession('p2')
assert.equal((await killed.wait()).exitCode, 137)
await assert.rejects(p.connectPty('p2', {onData: () => {}}))

await assert.rejects((await box.createLspServer('python', '/tmp')).start(), /language servers/)
await assert.rejects(box.computerUse.start(), /computer use/)
await box.delete()
console.log('done')
process.exit(0)
"""


def test_sessions_and_terminals():
    run(NEW, SESSIONS)


GIT = """
import {Daytona, DaytonaNotFoundError, DaytonaConflictError} from 'PACKAGE'
import assert from 'node:assert/strict'
const daytona = new Daytona()
const box = await daytona.create()
const {git, fs} = box
await git.init('origin.git', true, 'main')
await git.clone('/workspace/origin.git', 'repo')
await git.configureUser('A B', 'a@b.test', 'local', 'repo')
assert.equal(await git.getConfig('user.name', 'local', 'repo'), 'A B')
assert.equal(await git.getConfig('no.such', 'local', 'repo'), undefined)
await fs.uploadFile(Buffer.from('one'), 'repo/a b.txt')
assert.deepEqual((await git.status('repo')).fileStatus, [{name: 'a b.txt', staging: 'Untracked', worktree: 'Untracked', extra: ''}])
await git.add('repo', ['.'])
const made = await git.commit('repo', 'first\\n\\nbody', 'Me', 'me@x.test')
assert.equal(made.sha.length, 40)
await git.push('repo', undefined, undefined, 'main', 'origin', true)
let s = await git.status('repo')
assert.deepEqual([s.currentBranch, s.branchPublished, s.ahead, s.behind, s.detached, s.upstream, s.fileStatus], ['main', true, 0, 0, false, 'origin/main', []])
await git.createBranch('repo', 'next')
await assert.rejects(git.createBranch('repo', 'next'), /already exists/)
await git.checkoutBranch('repo', 'next')
assert.deepEqual(await git.branches('repo'), {branches: ['main', 'next'], current: 'next'})
await fs.moveFiles('repo/a b.txt', 'repo/c')
await git.add('repo', ['.'])
assert.deepEqual((await git.status('repo')).fileStatus, [{name: 'c', staging: 'Renamed', worktree: 'Unmodified', extra: 'a b.txt'}])
await git.commit('repo', 'second', 'Me', 'me@x.test', true)
await git.reset('repo', 'hard', 'HEAD~1')
await git.checkoutBranch('repo', 'main')
await git.deleteBranch('repo', 'next')
await git.remoteAdd('repo', 'other', '/nowhere')
assert.deepEqual((await git.remotes('repo')).remotes, [{name: 'origin', url: '/workspace/origin.git'}, {name: 'other', url: '/nowhere'}])
await git.clone('/workspace/origin.git', '/tmp/two', 'main', undefined, 'user', 'secret')
await fs.uploadFile(Buffer.from('two'), 'repo/d')
await git.add('repo', ['d']); await git.commit('repo', 'third', 'Me', 'me@x.test'); await git.push('repo')
await git.pull('/tmp/two')
assert.equal((await fs.downloadFile('/tmp/two/d')).toString(), 'two')
assert.equal((await box.process.executeCommand('grep -rc secret /tmp/two/.git/config')).result, '0\\n')
await assert.rejects(git.clone('/workspace/none.git', '/tmp/three'))
await assert.rejects(git.status('/tmp'), DaytonaNotFoundError)
await assert.rejects(git.checkoutBranch('repo', '--orphan'), /dash/)
await box.delete()
console.log('done')
process.exit(0)
"""


def test_git():
    run(NEW, GIT)


# what OpenManus's app/daytona does, and its sandbox tools, by the SDK of its time
OLDER = """
import {Daytona} from 'PACKAGE'
import assert from 'node:assert/strict'
const daytona = new Daytona({apiKey: process.env.DAYTONA_API_KEY, serverUrl: process.env.DAYTONA_API_URL, target: 'us'})
const box = await daytona.create({image: process.argv[2], public: true, labels: {id: 'project'}, envVars: {CHROME_PERSISTENT_SESSION: 'true', VNC_PASSWORD: 'pw',
  RESOLUTION: '1024x768x24', ANONYMIZED_TELEMETRY: 'false'}, resources: {cpu: 1, memory: 1, disk: 1}, autoStopInterval: 15, autoArchiveInterval: 24 * 60})
assert.deepEqual([box.state, box.autoStopInterval, box.autoArchiveInterval, box.public], ['started', 15, 1440, true])
assert.deepEqual((await daytona.list({id: 'project'})).map(s => s.id), [box.id])
await box.process.createSession('supervisord-session')
const started = await box.process.executeSessionCommand('supervisord-session', {command: 'exec python3 -u -m http.server 8080', runAsync: true})
assert.ok(started.cmdId)
for (const port of [6080, 8080]) {
  const link = await box.getPreviewLink(port)
  assert.ok(link.url.includes(`${port}-${box.id}.`) && link.token, JSON.stringify(link))
}
const reached = async () => (await box.process.executeCommand('curl -s -o /dev/null -w "%{http_code}" http://127.0.0.1:8080/ || true')).result
while (!(await reached()).startsWith('200')) await new Promise(r => setTimeout(r, 50))
const chunks = []
const followed = box.process.getSessionCommandLogs('supervisord-session', started.cmdId, c => chunks.push(c))
await box.process.createSession('sb')
let r = await box.process.executeSessionCommand('sb', {command: 'cd /tmp && pwd; echo err >&2', runAsync: false, cwd: undefined})
assert.deepEqual([r.exitCode, r.output], [0, '/tmp\\nerr\\n'])
assert.equal(await box.process.getSessionCommandLogs('sb', r.cmdId), '/tmp\\nerr\\n')
await box.process.deleteSession('supervisord-session')
await followed
assert.ok(/GET \\/ HTTP/.test(chunks.join('')), chunks.join(''))
const root = await box.getUserRootDir()
assert.ok(root.startsWith('/'))
await box.fs.createFolder('/workspace/d', '755')
await box.fs.uploadFile(Buffer.from('old'), '/workspace/d/f')
assert.equal((await box.fs.downloadFile('/workspace/d/f')).toString(), 'old')
assert.deepEqual((await box.fs.listFiles('/workspace/d')).map(f => [f.name, f.size, f.isDir]), [['f', 3, false]])
await box.fs.setFilePermissions('/workspace/d/f', {mode: '600'})
await box.fs.deleteFile('/workspace/d/f')
assert.equal((await box.process.executeCommand('echo $VNC_PASSWORD', '/tmp', {}, 10)).result, 'pw\\n')
assert.equal((await box.process.codeRun('print(6 * 7)')).result, '42\\n')
const again = await daytona.get(box.id)
await again.stop()
await again.start()
assert.equal(again.state, 'started')
await again.stop()
await again.archive()
await again.start()
await again.delete()
assert.deepEqual(await daytona.list({id: 'project'}), [])
console.log('done')
process.exit(0)
"""


def test_the_sdk_of_openmanus_time():
    run(OLD, OLDER, "host", config='[preview]\nlisten = "127.0.0.1:0"\ndomain = "preview.test"\n')


def test_the_legacy_package():
    run(LEGACY, SESSIONS)


OBJECTS = """
import {Daytona, DaytonaNotFoundError, Image} from 'PACKAGE'
import assert from 'node:assert/strict'
const daytona = new Daytona()
const v = await daytona.volume.get('data', true)
assert.deepEqual([v.id, v.name, v.state], ['data', 'data', 'ready'])
assert.deepEqual((await daytona.volume.list()).map(x => x.name), ['data'])
const volumes = [{volumeId: v.id, mountPath: '/data'}]
const one = await daytona.create({volumes})
await one.process.executeCommand('echo kept > /data/f')
await one.delete()
const two = await daytona.create({volumes})
assert.deepEqual(two.volumes, volumes)
assert.equal((await two.process.executeCommand('cat /data/f')).result, 'kept\\n')
await assert.rejects(daytona.volume.delete(v), /used/)
await two.delete()
await daytona.volume.delete(v)
await assert.rejects(daytona.volume.get('data'), DaytonaNotFoundError)
const images = async () => (await daytona.snapshot.list()).items.map(s => s.name)
assert.deepEqual(await images(), ['small:latest'])
assert.deepEqual([(await daytona.snapshot.get('small')).state, (await daytona.snapshot.get('small')).name], ['active', 'small'])
await assert.rejects(daytona.snapshot.get('none'), DaytonaNotFoundError)
const three = await daytona.create({snapshot: 'small'})
assert.equal(three.snapshot, 'small')
assert.equal((await three.process.executeCommand('cat /etc/hostname-of-image')).result, 'small\\n')
await three.process.createSession('s')     // an image without bash
assert.equal((await three.process.executeSessionCommand('s', {command: 'cd /etc; A=1'})).exitCode, 0)
assert.equal((await three.process.executeSessionCommand('s', {command: 'pwd; echo $A'})).stdout, '/etc\\n1\\n')
await three.delete()
const four = await daytona.create({image: Image.base('small')})
await four.delete()
await assert.rejects(daytona.create({image: Image.base('small').runCommands('true')}), /admin/)
await assert.rejects(daytona.snapshot.create({name: 'mine', image: 'small'}), /admin/)
const root = new Daytona({apiKey: process.argv[2]})
const made = await root.snapshot.create({name: 'mine', image: 'small'})
assert.deepEqual([made.name, made.state], ['mine', 'active'])
assert.deepEqual((await root.snapshot.list()).items.map(s => s.name).sort(), ['mine:latest', 'small:latest'])
await assert.rejects(root.snapshot.create({name: 'other', image: 'small', resources: {cpu: 1}}), /cpu of a snapshot/)
await root.snapshot.delete(made)
await assert.rejects(root.snapshot.get('mine'), DaytonaNotFoundError)
console.log('done')
process.exit(0)
"""


def test_volumes_and_snapshots():
    top = b.busybox_rootfs()
    b.write(top + "/etc/hostname-of-image", "small\n")
    b.berth("image", "import", top, "small", ok=True)
    run(NEW, OBJECTS, TOKEN)


BETWEEN = """
import {Daytona} from 'PACKAGE'
import assert from 'node:assert/strict'
const daytona = new Daytona()
const box = await daytona.create({labels: {k: 'v'}})
assert.deepEqual((await daytona.list({k: 'v'})).items.map(s => s.id), [box.id])
const p = box.process
await p.createSession('s')
const r = await p.executeSessionCommand('s', {command: 'cd /tmp; echo out; echo err >&2'})
assert.deepEqual([r.exitCode, r.stdout, r.stderr], [0, 'out\\n', 'err\\n'])
const logs = await p.getSessionCommandLogs('s', r.cmdId)
assert.deepEqual([logs.stdout, logs.stderr], ['out\\n', 'err\\n'])
const heard = [[], []]
await p.getSessionCommandLogs('s', r.cmdId, o => heard[0].push(o), x => heard[1].push(x))
assert.deepEqual(heard.map(h => h.join('')), ['out\\n', 'err\\n'])
await box.fs.uploadFiles([{source: Buffer.from('a'), destination: '/tmp/a'}, {source: Buffer.from('b'), destination: 'd/b'}])
assert.equal((await box.fs.downloadFile('d/b')).toString(), 'b')
await assert.rejects(box.fs.downloadFile('/tmp/none'), e => e.message === 'open /tmp/none: No such file or directory')
const bytes = []; let shown; const shows = new Promise(r => { shown = r })
const pty = await p.createPty({id: 'p', cols: 90, rows: 30, onData: d => { bytes.push(...d); if (Buffer.from(bytes).toString().includes('30 90\\r')) shown() }})
await pty.sendInput('stty size\\n'); await shows
await pty.sendInput('exit 6\\n')
assert.equal((await pty.wait()).exitCode, 6)
await box.stop(); await box.start(); await box.delete()
console.log('done')
process.exit(0)
"""


def test_an_sdk_between():
    run(MIDDLE, BETWEEN)
