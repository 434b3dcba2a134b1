# SPDX-License-Identifier: Apache-2.0
"""berthd under E2B's own SDKs of npm, unmodified."""
import json

import berthtest as b
import npmkit
from daemon import OTHER, TENANT, Daemon
from previews import Previews

COST = 60

SCRIPT = """
import {Sandbox, CommandExitError, NotFoundError, TimeoutError} from 'e2b'
import assert from 'node:assert/strict'
const sbx = await Sandbox.create({metadata: {a: '1', 'b c': 'd&e=f'}, envs: {FOO: 'bar'}, timeoutMs: 600000})
assert.equal(await sbx.isRunning(), true)
const ran = await sbx.commands.run('echo out; echo err >&2; echo $FOO $A; pwd', {envs: {A: 'b'}})
assert.deepEqual([ran.exitCode, ran.stderr, ran.stdout.split('\\n').slice(0, 2).join()], [0, 'err\\n', 'out,bar b'])
try { await sbx.commands.run('echo half; exit 3'); assert.fail('no error') } catch (e) {
  assert.ok(e instanceof CommandExitError, e); assert.deepEqual([e.exitCode, e.stdout], [3, 'half\\n']) }
try { await sbx.commands.run('sleep 100', {timeoutMs: 500}); assert.fail('no timeout') } catch (e) { assert.ok(e instanceof TimeoutError, e) }
const seen = []
await sbx.commands.run('for i in 1 2 3; do echo $i; done; head -c 3000000 /dev/zero | tr "\\\\0" x', {onStdout: d => { seen.push(d) }})
assert.equal(seen.join('').length, 3000006)
assert.ok(seen.join('').startsWith('1\\n2\\n3\\nxxx'))

const cat = await sbx.commands.run('cat; echo end', {background: true, stdin: true})
await sbx.commands.sendStdin(cat.pid, 'hello\\n')
const listed = await sbx.commands.list()
assert.ok(listed.some(p => p.pid === cat.pid), JSON.stringify(listed))
if (sbx.commands.closeStdin) { await sbx.commands.closeStdin(cat.pid); assert.equal((await cat.wait()).stdout, 'hello\\nend\\n') }
else await cat.kill()
const long = await sbx.commands.run('echo before; read x; echo got $x; sleep 1000', {background: true, stdin: true})
await long.disconnect()
const again = await sbx.commands.connect(long.pid, {onStdout: d => { heard.push(d); if (d.includes('got it')) told() }})
const heard = []; let told; const hears = new Promise(r => { told = r })
await sbx.commands.sendStdin(long.pid, 'it\\n')
await hears
assert.equal(await sbx.commands.kill(long.pid), true)
assert.equal(await sbx.commands.kill(99999), false)
await again.wait().catch(e => assert.ok(e instanceof CommandExitError, e))

const info = await sbx.files.write('dir/new/f.txt', 'text')
assert.equal(info.name, 'f.txt')
assert.equal(await sbx.files.read(info.path), 'text')
await sbx.files.write([{path: '/tmp/a', data: 'A'}, {path: '/tmp/b', data: new Uint8Array([0, 255, 1]).buffer}])
assert.deepEqual([...await sbx.files.read('/tmp/b', {format: 'bytes'})], [0, 255, 1])
assert.equal(await sbx.files.exists('/tmp/a'), true)
assert.equal(await sbx.files.exists('/tmp/none'), false)
assert.equal(await sbx.files.makeDir('/tmp/d/e'), true)
assert.equal(await sbx.files.makeDir('/tmp/d/e'), false)
await sbx.files.rename('/tmp/a', '/tmp/d/c')
const entries = await sbx.files.list('/tmp/d')
assert.deepEqual(entries.map(x => [x.name, x.type]).sort(), [['c', 'file'], ['e', 'dir']])
const deep = await sbx.files.list('/tmp', {depth: 3})
assert.ok(deep.some(x => x.path === '/tmp/d/c'))
if (sbx.files.getInfo) { const i = await sbx.files.getInfo('/tmp/d/c'); assert.equal(i.size, 1); assert.equal(i.type, 'file') }
await sbx.files.remove('/tmp/d')
await assert.rejects(sbx.files.read('/tmp/d/c'), NotFoundError)
const big = 'z'.repeat(5 << 20)
await sbx.files.write('/tmp/big', big)
assert.equal((await sbx.files.read('/tmp/big')).length, 5 << 20)
await sbx.files.write('/tmp/packed', big, {gzip: true, useOctetStream: true})   // older ones send it plain
assert.equal(await sbx.files.read('/tmp/packed'), big)

await sbx.files.makeDir('/tmp/watched')
const changes = []; let changed, left; const sees = new Promise(r => { changed = r }), exits = new Promise(r => { left = r })
const watch = await sbx.files.watchDir('/tmp/watched', v => { changes.push(v); if (v.name === 'sub/deep' && v.type === 'write') changed() },
  {recursive: true, timeoutMs: 0, includeEntry: true, onExit: left})
await sbx.commands.run('cd /tmp/watched; echo 1 > a; mv a b; chmod 600 b; rm b; mkdir sub')
await sbx.files.write('/tmp/watched/sub/deep', 'x')
await sbx.commands.run('echo more >> /tmp/watched/sub/deep')
await sees
for (const [name, type] of [['a', 'create'], ['a', 'write'], ['a', 'rename'], ['b', 'create'], ['b', 'chmod'], ['b', 'remove'], ['sub', 'create']])
  assert.ok(changes.some(v => v.name === name && v.type === type), `${name} ${type}: ${JSON.stringify(changes)}`)
await watch.stop(); await exits
await assert.rejects(sbx.files.watchDir('/tmp/none', () => {}), NotFoundError)

const get = async url => { const r = await fetch(url); return [r.status, await r.text()] }
const form = new FormData(); form.append('file', new Blob(['by address']), 'any')
assert.equal((await fetch(await sbx.uploadUrl('/tmp/up&down', {useSignatureExpiration: 60}), {method: 'POST', body: form})).status, 200)
assert.equal(await sbx.files.read('/tmp/up&down'), 'by address')
assert.deepEqual(await get(await sbx.downloadUrl('/tmp/up&down', {useSignatureExpiration: 60})), [200, 'by address'])
assert.deepEqual(await get(await sbx.downloadUrl('/tmp/up&down')), [200, 'by address'])
assert.equal((await get((await sbx.downloadUrl('/tmp/up&down')).replace('up%26', 'x%26')))[0], 401)
assert.equal((await get(await sbx.uploadUrl('/tmp/up&down')))[0], 401)

const bytes = []; let done; const shown = new Promise(r => { done = r })
const pty = await sbx.pty.create({cols: 91, rows: 24, timeoutMs: 0, onData: d => { bytes.push(...d); if (Buffer.from(bytes).toString().includes('24 91')) done() }})
await sbx.pty.resize(pty.pid, {cols: 91, rows: 24})
await sbx.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\\n'))
await shown
assert.equal(await sbx.pty.kill(pty.pid), true)

if (sbx.updateNetwork) {
  await sbx.updateNetwork({allowInternetAccess: false})
  assert.equal((await sbx.getInfo()).allowInternetAccess, false)
  await assert.rejects(sbx.updateNetwork({allowOut: ['a.test']}), /ALL_TRAFFIC/)
  await assert.rejects(sbx.updateNetwork({allowOut: ['a.test'], denyOut: ({allTraffic}) => [allTraffic]}), /network_enabled/)
}
// what is not served is refused in E2B's words, and makes nothing
for (const more of [{network: {allowOut: ['a.test']}}, {network: {denyOut: ['not an address']}}])
  if (sbx.updateNetwork) await assert.rejects(Sandbox.create({timeoutMs: 600000, ...more}), e => !/object Object/.test(e.message))
if (sbx.pause) {
  const e2b = await import('e2b')
  if (e2b.Volume) await assert.rejects(e2b.Volume.list(), /no such path/)
}
await sbx.setTimeout(120000)
const me = await Sandbox.getInfo(sbx.sandboxId)
assert.deepEqual([me.sandboxId, me.metadata, me.state], [sbx.sandboxId, {a: '1', 'b c': 'd&e=f'}, 'running'])
assert.ok(me.endAt - Date.now() > 60000)
if (sbx.fork) {   // 2.51; older ones have it as betaCreate({autoPause})
  const idle = await Sandbox.create({timeoutMs: 1000, lifecycle: {onTimeout: 'pause'}})
  const info = async () => await Sandbox.getInfo(idle.sandboxId)
  assert.deepEqual((await info()).lifecycle, {onTimeout: 'pause', autoResume: false})
  while ((await info()).state !== 'paused') await new Promise(r => setTimeout(r, 50))
  await idle.connect({timeoutMs: 600000})
  assert.equal((await idle.commands.run('echo on')).stdout, 'on\\n')
  assert.equal((await info()).state, 'running')
  assert.equal(await idle.kill(), true)

  // a request wakes it
  const woken = await Sandbox.create({timeoutMs: 1000, lifecycle: {onTimeout: 'pause', autoResume: true}})
  const state = async s => (await Sandbox.getInfo(s.sandboxId)).state
  assert.deepEqual((await Sandbox.getInfo(woken.sandboxId)).lifecycle, {onTimeout: 'pause', autoResume: true})
  while (await state(woken) !== 'paused') await new Promise(r => setTimeout(r, 50))
  await woken.files.write('/tmp/w', 'awake')
  assert.equal(await state(woken), 'running')
  await woken.pause()
  assert.equal((await woken.commands.run('cat /tmp/w')).stdout, 'awake')
  // its fork does so too
  const [forked] = await woken.fork({timeoutMs: 600000})
  const fork = forked.sandbox ?? forked
  await fork.pause()
  assert.equal((await fork.commands.run('echo fork')).stdout, 'fork\\n')
  assert.equal(await fork.kill(), true)
  assert.equal(await woken.kill(), true)

  // without memory: the files stay, and only connect() starts it
  const cold = await Sandbox.create({timeoutMs: 1000, lifecycle: {onTimeout: {action: 'pause', keepMemory: false}}})
  while (await state(cold) !== 'paused') await new Promise(r => setTimeout(r, 50))
  await cold.connect({timeoutMs: 600000})
  await cold.commands.run('echo kept > /root/f; nohup sleep 1000 >/dev/null 2>&1 &')
  assert.equal(await cold.pause({keepMemory: false}), true)
  assert.equal(await cold.pause({keepMemory: false}), false)
  assert.equal(await state(cold), 'paused')
  await assert.rejects(cold.commands.run('true'))
  assert.equal(await state(cold), 'paused')
  const started = await Sandbox.connect(cold.sandboxId, {timeoutMs: 600000})
  assert.equal((await started.commands.run("cat /root/f; ps ax | grep -c '[s]leep 1000' || true")).stdout, 'kept\\n0\\n')
  // the rest of its memory is dropped by the one who resumes it
  await started.commands.run('nohup sleep 1000 >/dev/null 2>&1 &')
  await started.pause()
  const rebooted = await Sandbox.connect(cold.sandboxId, {timeoutMs: 600000, onResume: 'reboot'})
  assert.equal((await rebooted.commands.run("cat /root/f; ps ax | grep -c '[s]leep 1000' || true")).stdout, 'kept\\n0\\n')
  assert.equal(await rebooted.pause({keepMemory: false}), true)
  assert.equal(await rebooted.kill(), true)
}
const page = await Sandbox.list({query: {metadata: {'b c': 'd&e=f'}, state: ['running']}}).nextItems()
assert.deepEqual(page.map(s => s.sandboxId), [sbx.sandboxId])
assert.equal((await Sandbox.list({query: {metadata: {'b c': 'd'}}}).nextItems()).length, 0)
const pause = sbx.pause ? 'pause' : 'betaPause'
await sbx.commands.run('echo 41 > /tmp/n; nohup sh -c "sleep 1000" >/dev/null 2>&1 &')
assert.ok(await sbx[pause]())
assert.equal((await Sandbox.getInfo(sbx.sandboxId)).state, 'paused')
assert.equal((await Sandbox.list({query: {state: ['paused']}}).nextItems()).length, 1)
const back = await Sandbox.connect(sbx.sandboxId, {timeoutMs: 600000})
assert.equal((await back.commands.run('cat /tmp/n')).stdout, '41\\n')
assert.ok((await back.getMetrics())[0].memTotal > 0)
assert.equal(await Sandbox.kill(sbx.sandboxId), true)
assert.equal(await Sandbox.kill(sbx.sandboxId), false)
assert.equal(await sbx.isRunning(), false)
await assert.rejects(sbx.commands.run('true'))
console.log('done')
process.exit(0)     // older ones keep connections open
"""


def run(package, text, *args, token=TENANT, config="", **more):
    place = npmkit.packages(package)
    with Daemon(config, tcp=True) as d:
        url = f"http://127.0.0.1:{d.port}"
        said = npmkit.script(place, text, *args, env={"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_API_KEY": "e2b_" + token}, **more)
        assert said.endswith("done\n"), said
        left = json.loads(b.berth("ps", "-a", "--json", ok=True).out)
        assert left == [], left


SNAPSHOTS = """
import {Sandbox, NotFoundError} from 'e2b'
import assert from 'node:assert/strict'
const [alice, bob] = process.argv.slice(2).map(k => ({apiKey: 'e2b_' + k}))
const read = async s => (await s.commands.run('cat /root/n')).stdout.trim()
const sbx = await Sandbox.create({metadata: {a: '1'}, envs: {FOO: 'bar'}, timeoutMs: 600000, ...alice})
await sbx.commands.run('echo 1 > /root/n')
const one = await sbx.createSnapshot()
await sbx.commands.run('echo 2 > /root/n')
const two = await Sandbox.createSnapshot(sbx.sandboxId, {name: 'my-state', ...alice})
assert.deepEqual([one.names, two.names], [[], [two.snapshotId]])
await sbx.commands.run('echo 3 > /root/n')
const ids = async (q = {}) => (await Sandbox.listSnapshots({...alice, ...q}).nextItems()).map(s => s.snapshotId).sort()
assert.deepEqual(await ids(), [one.snapshotId, two.snapshotId].sort())
assert.deepEqual(await ids({sandboxId: sbx.sandboxId}), [one.snapshotId, two.snapshotId].sort())
assert.deepEqual(await ids({sandboxId: 'none'}), [])
if (Sandbox.fork) assert.deepEqual(await ids({name: 'my-state'}), [two.snapshotId])     // 2.27 has no such filter
const pages = sbx.listSnapshots({limit: 1}); await pages.nextItems(); assert.ok(pages.hasNext); await pages.nextItems(); assert.ok(!pages.hasNext)
assert.equal((await Sandbox.list(alice).nextItems()).length, 1)     // a snapshot is no sandbox
// they outlive it
await sbx.kill()
const [a, b] = await Promise.all([one, two].map(s => Sandbox.create(s.snapshotId, {timeoutMs: 600000, metadata: {of: s.snapshotId}, envs: {X: 'y'}, ...alice})))
assert.deepEqual([await read(a), await read(b)], ['1', '2'])
assert.equal((await a.commands.run('echo $FOO $X')).stdout, 'bar y\\n')
assert.deepEqual((await Sandbox.getInfo(a.sandboxId, alice)).metadata, {of: one.snapshotId})
const c = await Sandbox.create('my-state', {timeoutMs: 600000, ...alice})
assert.deepEqual([await read(c), (await Sandbox.getInfo(c.sandboxId, alice)).metadata], ['2', {}])
// another's is not there
assert.deepEqual(await Sandbox.listSnapshots(bob).nextItems(), [])
assert.equal(await Sandbox.deleteSnapshot(one.snapshotId, bob), false)
await assert.rejects(Sandbox.create(one.snapshotId, bob))
await assert.rejects(Sandbox.create('my-state', bob))
// the newest has the name
await c.commands.run('echo 4 > /root/n')
const three = await c.createSnapshot({name: 'my-state'})
assert.equal(three.snapshotId, two.snapshotId)
const d = await Sandbox.create('my-state', {timeoutMs: 600000, ...alice})
assert.equal(await read(d), '4')
for (const id of [one.snapshotId, 'my-state']) {
  assert.equal(await Sandbox.deleteSnapshot(id, alice), true)
  assert.equal(await Sandbox.deleteSnapshot(id, alice), false)
}
assert.deepEqual(await ids(), [])
await assert.rejects(Sandbox.createSnapshot('none', alice), NotFoundError)
await assert.rejects(d.createSnapshot({name: 'a/b:c'}), /not a name/)
if (d.fork) {
  await d.commands.run('echo 5 > /root/n')
  const forks = await d.fork({count: 2, timeoutMs: 600000})
  assert.deepEqual(await Promise.all(forks.map(read)), ['5', '5'])
  await forks[0].commands.run('echo 6 > /root/n')
  assert.deepEqual([await read(forks[1]), await read(d)], ['5', '5'])
  assert.ok((await Sandbox.getInfo(forks[0].sandboxId, alice)).endAt - Date.now() < 601000)
  await assert.rejects(Sandbox.fork('none', alice), NotFoundError)
  const more = await Sandbox.fork(d.sandboxId, {count: 6, ...alice})
  const made = more.filter(f => f instanceof Sandbox)
  assert.ok(made.length && made.length < 6 && more.every(f => f instanceof Sandbox || /may have 8/.test(f.message)), String(more))
  await Promise.all([...forks, ...made].map(f => f.kill()))
}
for (const s of [a, b, c, d]) await s.kill()
console.log('done')
process.exit(0)
"""


def test_sdk_2_51():
    run("e2b@2.51.0", SCRIPT)


def test_snapshots_and_forks_of_sdk_2_51():
    run("e2b@2.51.0", SNAPSHOTS, TENANT, OTHER, config="[tenant]\nsandboxes = 8\n")


def test_snapshots_of_sdk_2_27():
    run("e2b@2.27.0", SNAPSHOTS, TENANT, OTHER, config="[tenant]\nsandboxes = 8\n")


def test_sdk_2_27():
    run("e2b@2.27.0", SCRIPT)


def test_sdk_2_10():
    run("e2b@2.10.2", SCRIPT)


CODE = """
import {Sandbox} from '@e2b/code-interpreter'
import assert from 'node:assert/strict'
const sbx = await Sandbox.create({timeoutMs: 600000, template: 'base'})
let x = await sbx.runCode('import os\\nx = 41\\nprint("out"); os.system("echo sub >&2"); x + 1', {envs: {A: 'b'}})
assert.deepEqual([x.text, x.logs.stdout.join(''), x.logs.stderr.join(''), x.error, x.executionCount], ['42', 'out\\n', 'sub\\n', undefined, 1])
x = await sbx.runCode('x, os.environ.get("A")')
assert.deepEqual([x.text, x.executionCount], ["(41, None)", 2])
x = await sbx.runCode('def f():\\n  return 1 / 0\\nf()')
assert.equal(x.error.name, 'ZeroDivisionError'); assert.ok(x.error.traceback.includes('in f'), x.error.traceback)
x = await sbx.runCode('class H:\\n  def _repr_html_(self): return "<b>1</b>"\\ndisplay(H()); H()')
assert.deepEqual(x.results.map(r => [r.html, r.isMainResult]), [['<b>1</b>', false], ['<b>1</b>', true]])
x = await sbx.runCode('!echo shell; exit 0')
assert.equal(x.logs.stdout.join(''), 'shell\\n')
const heard = []
x = await sbx.runCode('import time\\nfor i in range(3):\\n  print(i); time.sleep(0.05)\\nprint("y" * 3000000)', {onStdout: o => heard.push(o.line)})
assert.equal(heard.join('').length, 3000007)
const ctx = await sbx.createCodeContext({cwd: '/tmp', language: 'python'})
assert.equal((await sbx.runCode('import os; os.getcwd()', {context: ctx})).text, '/tmp')
assert.equal((await sbx.runCode('x', {context: ctx})).error.name, 'NameError')
assert.deepEqual((await sbx.listCodeContexts()).map(c => c.id).filter(id => id !== 'javascript').sort(), [ctx.id, 'default'].sort())
await sbx.runCode('kept = 1', {context: ctx})
await sbx.restartCodeContext(ctx)
assert.equal((await sbx.runCode('kept', {context: ctx})).error.name, 'NameError')
await sbx.removeCodeContext(ctx)
await assert.rejects(sbx.runCode('1', {context: ctx}))
const both = await Promise.all([1, 2, 3].map(i => sbx.runCode(`print("p${i}"); ${i}`)))
assert.deepEqual(both.map(b => [b.text, b.logs.stdout.join('')]), [['1', 'p1\\n'], ['2', 'p2\\n'], ['3', 'p3\\n']])
x = await sbx.runCode('os._exit(3)')
assert.equal(x.error.name, 'ContextRestarting')
assert.equal((await sbx.runCode('6 * 7')).text, '42')
await assert.rejects(sbx.runCode('1', {language: 'cobol'}))
if ((await sbx.commands.run('command -v node || true')).stdout) {
  for (const language of ['js', 'javascript']) {
    x = await sbx.runCode('const n = await Promise.resolve(20); console.log("out"); console.error("err"); n + 1', {language})
    assert.deepEqual([x.text, x.logs.stdout.join(''), x.logs.stderr.join(''), x.error], ['21', 'out\\n', 'err\\n', undefined])
  }
  assert.equal((await sbx.runCode('throw new RangeError("far")', {language: 'js'})).error.name, 'RangeError')
  const node = await sbx.createCodeContext({cwd: '/tmp', language: 'js'})
  assert.equal((await sbx.runCode('process.cwd()', {context: node})).text, '/tmp')
}
await sbx.kill()
console.log('done')
process.exit(0)
"""


def test_code_interpreter():
    run("@e2b/code-interpreter@2.8.0", CODE)


TENANTS = """
import {Sandbox} from 'e2b'
import assert from 'node:assert/strict'
const [alice, bob] = process.argv.slice(2).map(k => ({apiKey: 'e2b_' + k}))
const a = await Sandbox.create(alice)
await a.files.write('/tmp/secret', 'of alice')
assert.deepEqual(await Sandbox.list(bob).nextItems(), [])
assert.equal(await Sandbox.kill(a.sandboxId, bob), false)
await assert.rejects(Sandbox.connect(a.sandboxId, bob), /not found/)
await assert.rejects(Sandbox.getInfo(a.sandboxId, bob), /not found/)
const b = await Sandbox.create(bob)
// bob's key, and the number of alice's sandbox in the field that says which
const url = process.env.E2B_SANDBOX_URL, headers = {'X-Access-Token': bob.apiKey, 'E2b-Sandbox-Id': a.sandboxId}
assert.equal((await fetch(url + '/files?path=/tmp/secret', {headers})).status, 502)
assert.equal((await fetch(url + '/health', {headers})).status, 502)
for (const key of ['', 'e2b_', 'e2b_' + '0'.repeat(32)])
  assert.equal((await fetch(url + '/v2/sandboxes', {headers: {'X-API-Key': key}})).status, 401)
assert.equal(await a.files.read('/tmp/secret'), 'of alice')
assert.ok(await a.kill(alice) && await b.kill(bob))
console.log('done')
"""


def test_tenants_are_apart():
    place = npmkit.packages("e2b@2.51.0")
    with Daemon(tcp=True) as d:
        url = f"http://127.0.0.1:{d.port}"
        assert npmkit.script(place, TENANTS, TENANT, OTHER, env={"E2B_API_URL": url, "E2B_SANDBOX_URL": url}).endswith("done\n")


PREVIEW = """
import {Sandbox} from 'e2b'
import assert from 'node:assert/strict'
import http from 'node:http'
// names below the domain lead to this machine only for the tests' own look-up
const get = (host, headers = {}) => new Promise((done, failed) => http.get(`http://${host}/`, {headers,
  lookup: (name, options, found) => options.all ? found(null, [{address: '127.0.0.1', family: 4}]) : found(null, '127.0.0.1', 4)},
  r => { let text = ''; r.on('data', d => { text += d }); r.on('end', () => done([r.statusCode, text])) }).on('error', failed))
const serve = async (sbx, port) => {
  await sbx.commands.run(`mkdir -p /tmp/site && echo page-${port} > /tmp/site/index.html && cd /tmp/site && python3 -m http.server ${port}`, {background: true})
  while ((await sbx.commands.run(`python3 -c 'import socket; socket.create_connection(("127.0.0.1", ${port}))' 2>/dev/null || echo no`)).stdout) ;
}
const sbx = await Sandbox.create({timeoutMs: 600000})
assert.ok(sbx.getHost(8000).startsWith(`8000-${sbx.sandboxId}.preview.test:`), sbx.getHost(8000))
assert.deepEqual((await get(sbx.getHost(8000)))[0], 502)
await serve(sbx, 8000)
assert.deepEqual(await get(sbx.getHost(8000)), [200, 'page-8000\\n'])
const again = await Sandbox.connect(sbx.sandboxId)
assert.equal(again.getHost(8000), sbx.getHost(8000))
assert.equal(await sbx.kill(), true)
if (sbx.trafficAccessToken) {
  const own = await Sandbox.create({timeoutMs: 600000, network: {allowPublicTraffic: false}})
  await serve(own, 8000)
  assert.equal((await get(own.getHost(8000)))[0], 401)
  assert.deepEqual(await get(own.getHost(8000), {'e2b-traffic-access-token': own.trafficAccessToken}), [200, 'page-8000\\n'])
  assert.equal(await own.kill(), true)
}
console.log('done')
process.exit(0)
"""


@b.deadline(300)
def test_get_host_leads_to_the_preview_of_a_port():
    place = npmkit.packages("e2b@2.51.0")
    with Previews(tcp=True) as d:
        url = f"http://127.0.0.1:{d.port}"
        said = npmkit.script(place, PREVIEW, env={"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_API_KEY": "e2b_" + TENANT})
        assert said.endswith("done\n"), said
