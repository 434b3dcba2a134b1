# SPDX-License-Identifier: Apache-2.0
"""berthd under npm's clients of Docker, unmodified: dockerode and testcontainers, with an image of Debian's busybox."""
import os

import berthtest as b
import npmkit
from dockerlab import Engine
from netlab import Lab, need_bridge

COST = 90
DOCKERODE, TESTCONTAINERS = "dockerode@5.0.1", "testcontainers@12.0.4"


def image(name="web:1"):
    """A busybox with all its programs, which serves files by HTTP; its command says when it does."""
    top = b.busybox_rootfs("web")
    for applet in ("httpd", "nc", "awk", "tar", "printf", "sed", "tail", "tee", "wget", "date", "nslookup"):
        os.symlink("busybox", f"{top}/bin/{applet}")
    os.mkdir(top + "/www")
    b.write(top + "/www/index.html", "hello from the container\n")
    b.berth("image", "import", top, name, ok=True)


class Bench:
    """with Bench() as d: an engine on a host with a network of its own; nothing is left of it."""

    def __enter__(self):
        need_bridge()
        self.lab = Lab(forwarding=True)
        self.lab.__enter__()
        self.engine = Engine()
        image()
        return self.engine.__enter__()

    def __exit__(self, *why):
        self.engine.__exit__(*why)
        b.berth("network", "prune", timeout=30)
        b.berth("volume", "prune", "--force", timeout=30)
        self.lab.__exit__(*why)


DOCKERODE_SCRIPT = """
import Docker from 'dockerode'
import assert from 'node:assert/strict'
import {PassThrough} from 'node:stream'
const docker = new Docker({socketPath: process.argv[2]})
const text = async s => { let all = ''; for await (const d of s) all += d; return all }
assert.equal((await docker.ping()).toString(), 'OK')
const version = await docker.version()
assert.equal(version.Os, 'linux')

const out = new PassThrough(), err = new PassThrough(), said = Promise.all([text(out), text(err)])
const [ended, ran] = await docker.run('web:1', ['sh', '-c', 'echo out; echo err >&2; exit 3'], [out, err], {Tty: false})
assert.equal(ended.StatusCode, 3); out.end(); err.end()
assert.deepEqual(await said, ['out\\n', 'err\\n'])
await ran.remove()

const box = await docker.createContainer({Image: 'web:1', name: 'Dockerode.Box', Cmd: ['sh', '-c', 'httpd -p 8080 -h /www; echo ready; exec sleep 1000'], WorkingDir: '/',
  Labels: {a: 'b'}, Env: ['X=y'], ExposedPorts: {'8080/tcp': {}}, HostConfig: {PublishAllPorts: true, Memory: 64 << 20}})
await box.start()
const seen = await box.inspect()
assert.equal(seen.Name, '/Dockerode.Box'); assert.equal(seen.State.Running, true)
assert.equal(seen.Config.Hostname, seen.Id.slice(0, 12))
const port = seen.NetworkSettings.Ports['8080/tcp'][0].HostPort
const log = await box.logs({follow: true, stdout: true, stderr: true})
await new Promise(r => log.on('data', d => { if (d.toString().includes('ready')) { log.destroy(); r() } }))
assert.equal(await (await fetch(`http://127.0.0.1:${port}/`)).text(), 'hello from the container\\n')
const listed = await docker.listContainers({filters: {label: ['a=b']}})
assert.deepEqual(listed.map(c => c.Names), [['/Dockerode.Box']])

const exec = await box.exec({Cmd: ['sh', '-c', 'read x; echo got $x $X; exit 4'], AttachStdin: true, AttachStdout: true, AttachStderr: true})
const stream = await exec.start({hijack: true, stdin: true})
const o = new PassThrough(), heard = text(o)
docker.modem.demuxStream(stream, o, o)
stream.write('it\\n'); await new Promise(r => stream.on('end', r)); o.end()
assert.equal(await heard, 'got it y\\n')
assert.equal((await exec.inspect()).ExitCode, 4)
const tty = await (await box.exec({Cmd: ['sh'], Tty: true, AttachStdin: true, AttachStdout: true})).start({hijack: true, stdin: true, Tty: true})
tty.write('echo $((6*7)); exit\\n')
assert.match(await text(tty), /42/)

const stats = await box.stats({stream: false})
assert.ok(stats.memory_stats.limit === 64 << 20, JSON.stringify(stats.memory_stats))
assert.ok((await box.top()).Processes.length >= 1)
await box.pause(); assert.equal((await box.inspect()).State.Status, 'paused'); await box.unpause()
await box.update({Memory: 128 << 20}); await box.rename({name: 'other'})
assert.equal((await docker.getContainer('other').inspect()).Id, seen.Id)
assert.ok((await text(await box.getArchive({path: '/www/index.html'}))).includes('hello from'))
const committed = await box.commit({repo: 'saved', tag: '1'})
assert.match(committed.Id, /^sha256:/)
const image = docker.getImage('saved:1')
assert.ok((await image.inspect()).RepoTags.includes('saved:1'))
await image.tag({repo: 'saved', tag: '2'}); assert.ok((await docker.listImages({})).some(i => (i.RepoTags || []).includes('saved:2')))
assert.ok((await image.history()).length >= 1)
await docker.getImage('saved:2').remove(); await image.remove({force: true})

const events = await docker.getEvents({filters: {container: [seen.Id], event: ['die', 'destroy']}})
const told = []; const over = new Promise(r => events.on('data', d => { for (const l of d.toString().trim().split('\\n')) told.push(JSON.parse(l).Action); if (told.includes('destroy')) r() }))
const waited = box.wait(); await box.stop({t: 0}); assert.equal((await waited).StatusCode, 137)
await box.remove(); await over; assert.deepEqual(told, ['die', 'destroy']); events.destroy()
await assert.rejects(box.inspect(), e => e.statusCode === 404 && e.message.includes('No such container'))

const volume = await docker.createVolume({Name: 'Dockerode_Data', Labels: {x: 'y'}})
assert.equal((await docker.getVolume('Dockerode_Data').inspect()).Name, 'Dockerode_Data'); await docker.getVolume('Dockerode_Data').remove()
const network = await docker.createNetwork({Name: 'Dockerode_Net', Internal: true})
const first = await docker.createNetwork({Name: 'first', Internal: true})
const member = await docker.createContainer({Image: 'web:1', name: 'member', Cmd: ['sleep', '1000'], HostConfig: {NetworkMode: 'first'}})
await member.start(); await network.connect({Container: member.id, EndpointConfig: {Aliases: ['m']}})
assert.ok(Object.keys((await network.inspect()).Containers).includes(member.id))
await network.disconnect({Container: member.id, Force: true}); await member.remove({force: true}); await network.remove(); await first.remove()
await assert.rejects(new Promise((y, n) => docker.pull('127.0.0.1:1/none:1', (e, s) => e ? n(e) : docker.modem.followProgress(s, e => e ? n(e) : y()))))
const info = await docker.info(); assert.equal(info.Containers, 0)
console.log('done')
"""


@b.deadline(120)
def test_dockerode_does_all_that_it_can():
    place = npmkit.packages(DOCKERODE)
    with Bench() as d:
        assert "done" in npmkit.script(place, DOCKERODE_SCRIPT, d.docker_socket)


TESTCONTAINERS_SCRIPT = """
import {GenericContainer, Network, Wait, getContainerRuntimeClient} from 'testcontainers'
import assert from 'node:assert/strict'
import fs from 'node:fs'
const serve = ['sh', '-c', 'httpd -p 8080 -h /www; echo ready on 8080; trap "exit 0" TERM; while :; do sleep 0.05; done']
const text = async s => { let all = ''; for await (const d of s) all += d; return all }
const get = async (c, path = '/') => (await fetch(`http://${c.getHost()}:${c.getMappedPort(8080)}${path}`)).text()

for (const wait of [Wait.forListeningPorts(), Wait.forLogMessage(/ready on \\d+/), Wait.forHttp('/', 8080).forStatusCode(200),
                    Wait.forSuccessfulCommand('test -f /www/index.html'), Wait.forHealthCheck(),
                    Wait.forAll([Wait.forListeningPorts(), Wait.forLogMessage('ready')])]) {
  const c = await new GenericContainer('web:1').withCommand(serve).withExposedPorts(8080).withWaitStrategy(wait)
    .withHealthCheck({test: ['CMD-SHELL', 'test -f /www/index.html'], interval: 200, timeout: 20000, retries: 20, startPeriod: 100})
    .withStartupTimeout(60000).start()
  assert.equal(await get(c), 'hello from the container\\n')
  await c.stop()
}
const once = await new GenericContainer('web:1').withCommand(['sh', '-c', 'echo once']).withWaitStrategy(Wait.forOneShotStartup()).start()
await once.stop()

fs.writeFileSync(process.argv[3] + '/f.txt', 'from a file')
fs.mkdirSync(process.argv[3] + '/dir/sub', {recursive: true}); fs.writeFileSync(process.argv[3] + '/dir/sub/g.txt', 'from a directory')
const lines = []
const network = await new Network().start()
const server = await new GenericContainer('web:1').withName('Testcontainers-Server').withNetwork(network).withNetworkAliases('Server', 'web')
  .withEnvironment({A: 'b c'}).withLabels({l: 'm'}).withWorkingDir('/www').withTmpFs({'/scratch': 'rw,size=1m'}).withResourcesQuota({memory: 0.125, cpu: 0.5})
  .withUser('root').withUlimits({nofile: {soft: 1024, hard: 1024}}).withExtraHosts([{host: 'example.test', ipAddress: '10.1.2.3'}])
  .withCopyFilesToContainer([{source: process.argv[3] + '/f.txt', target: '/www/f.txt', mode: 0o640}])
  .withCopyDirectoriesToContainer([{source: process.argv[3] + '/dir', target: '/www/dir'}])
  .withCopyContentToContainer([{content: 'content', target: '/www/made/c.txt'}])
  .withLogConsumer(s => s.on('data', l => lines.push(l.toString())))
  .withCommand(serve).withExposedPorts(8080).withWaitStrategy(Wait.forLogMessage('ready')).start()
assert.deepEqual([await get(server, '/f.txt'), await get(server, '/dir/sub/g.txt'), await get(server, '/made/c.txt')], ['from a file', 'from a directory', 'content'])
const said = await server.exec(['sh', '-c', 'pwd; echo $A; cat /etc/hosts | grep -c example.test; echo err >&2; exit 5'])
assert.equal(said.exitCode, 5); assert.equal(said.stdout, '/www\\nb c\\n1\\n'); assert.equal(said.stderr, 'err\\n')
assert.equal((await server.exec(['stat', '-c', '%a', '/www/f.txt'])).output.trim(), '640')
assert.equal((await server.exec('env', {env: {MORE: '1'}, workingDir: '/', user: 'daemon'})).output.includes('MORE=1'), true)
await server.copyContentToContainer([{content: 'later', target: '/www/later.txt'}])
assert.equal(await get(server, '/later.txt'), 'later')
assert.ok((await text(await server.copyArchiveFromContainer('/www/dir'))).includes('from a directory'))

const client = await new GenericContainer('web:1').withNetwork(network).withCommand(['sleep', '1000']).start()
for (const name of ['Server', 'web', server.getName().replace('/', ''), server.getIpAddress(network.getName())])
  assert.equal((await client.exec(['wget', '-q', '-O', '-', `http://${name}:8080/`])).output, 'hello from the container\\n', name)
await client.stop()
const before = server.getId(); await server.restart(); assert.equal(server.getId(), before)
assert.equal(await get(server), 'hello from the container\\n')
const log = await server.logs({tail: 1})
// its socket does not keep node alive
const alive = setInterval(() => {}, 1000)
await new Promise(r => log.on('data', d => { if (d.toString().includes('ready on 8080')) { log.destroy(); r() } }))
clearInterval(alive)
assert.ok(lines.some(l => l.includes('ready on 8080')), lines)
const id = await server.commit({repo: 'saved', tag: '1', deleteOnExit: false}); assert.ok(id)
const copy = await new GenericContainer('saved:1').withCommand(serve).withExposedPorts(8080).withWaitStrategy(Wait.forListeningPorts()).start()
assert.equal(await get(copy, '/later.txt'), 'later'); await copy.stop({timeout: 5000})
await assert.rejects(new GenericContainer('web:1').withCommand(['sh', '-c', 'echo failed; exit 3']).withExposedPorts(8080).withStartupTimeout(4000).start())
await assert.rejects(new GenericContainer('web:1').withCommand(serve).withWaitStrategy(Wait.forLogMessage('never')).withStartupTimeout(1000).start())
await server.stop({remove: true, removeVolumes: true}); await network.stop()
const reuse = () => new GenericContainer('web:1').withCommand(serve).withExposedPorts(8080).withReuse().start()
const [one, two] = [await reuse(), await reuse()]
assert.equal(one.getId(), two.getId()); await one.stop()
console.log('done')
"""


@b.deadline(240)
def test_testcontainers_starts_waits_copies_and_stops():
    place = npmkit.packages(TESTCONTAINERS)
    with Bench() as d:
        env = {"DOCKER_HOST": d.url, "TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_REUSE_ENABLE": "true", "HOME": b.tmpdir("home"),
               "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1", "DEBUG": os.environ.get("BERTH_TEST_DEBUG", "")}
        assert "done" in npmkit.script(place, TESTCONTAINERS_SCRIPT, d.docker_socket, b.tmpdir("files"), env=env, seconds=200)
        # the one that ended by itself is left to ryuk, whose image cannot be had here
        d.reap("org.testcontainers=true")
        assert not d.good("GET", "/containers/json?all=1")
        assert {n["Name"] for n in d.good("GET", "/networks")} == {"bridge", "host", "none"}
