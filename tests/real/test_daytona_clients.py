# SPDX-License-Identifier: Apache-2.0
"""berthd under Daytona's own SDKs of npm, unmodified."""
import json

import berthtest as b
import npmkit
from daemon import OTHER, TENANT, Daemon

COST = 60
NEW = "@daytona/sdk@0.216.0"
LEGACY = "@daytonaio/sdk@0.218.0"
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
await box.setAutostopInterval(0); await box.setAutoArchiveInterval(30); await box.setAutoDeleteInterval(-1)
const again = await daytona.get(box.id)
assert.deepEqual([again.labels, again.autoStopInterval, again.autoArchiveInterval, again.autoDeleteInterval], [{x: 'y'}, 0, 30, -1])
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
