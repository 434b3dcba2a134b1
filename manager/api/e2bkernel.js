// SPDX-License-Identifier: Apache-2.0
// The resident JavaScript behind E2B's POST /execute, which speaks as e2bkernel.py does: a line of JSON in for each cell
// ("id", "code", "env"), lines of JSON out, each with the cell's id.  Runs in the sandbox.  This process passes on what
// the cells write; they run in a second one, so that a cell which never returns, or floods, is heard all the same.  A
// line {"interrupt": ID} ends that cell, and with it the process of one that does not listen.  With the argument
// "typescript" cells may have types.
'use strict'
const INTERRUPT_MS = 1000
if (process.argv[1] === 'cells') cells()
else pass()

function pass() {
  const {spawn} = require('node:child_process')
  const {StringDecoder} = require('node:string_decoder')
  const word = require('node:crypto').randomBytes(16).toString('hex'), mark = Buffer.from(`\0${word}\0`)
  const child = spawn(process.execPath, ['--no-warnings', '-e', process._eval, 'cells', word, process.argv[1] || ''],
    {stdio: ['ignore', 'pipe', 'pipe', 'ipc'], serialization: 'json'})
  const queue = [], open = new Set()
  let now = null, left = 0
  const say = (type, event) => process.stdout.write(JSON.stringify({id: now, type, ...event}) + '\n')
  const next = () => {
    if (now !== null || !queue.length) return
    const cell = queue.shift()
    now = cell.id
    left = 1 + open.size    // the end of the cell, and of what it wrote to either stream
    child.send(cell)
  }
  const done = () => {
    if (--left) return
    say('end_of_execution')
    now = null
    next()
  }
  const hear = (stream, kind) => {
    const decoder = new StringDecoder('utf8')
    open.add(stream)
    stream.on('end', () => { if (open.delete(stream) && now !== null) done() })
    let held = Buffer.alloc(0)
    stream.on('data', data => {
      held = Buffer.concat([held, data])
      for (let at; (at = held.indexOf(mark)) >= 0;) {
        tell(held.subarray(0, at))
        held = held.subarray(at + mark.length)
        if (now !== null) done()
      }
      const zero = held.indexOf(0, Math.max(0, held.length - mark.length + 1))  // the mark may have come in part
      tell(zero < 0 ? held : held.subarray(0, zero))
      held = zero < 0 ? Buffer.alloc(0) : held.subarray(zero)
    })
    const tell = bytes => {
      const text = decoder.write(bytes)
      // the reader is slower: what writes waits
      if (text && !say(kind, {text, timestamp: new Date().toISOString()})) {
        stream.pause()
        process.stdout.once('drain', () => stream.resume())
      }
    }
  }
  hear(child.stdout, 'stdout')
  hear(child.stderr, 'stderr')
  child.on('message', m => m && m.type === 'cell_end' ? now !== null && done() :
    m && ['number_of_executions', 'result', 'error'].includes(m.type) && say(m.type, m.event))
  child.on('exit', (code, signal) => setImmediate(() => process.exit(signal ? 1 : code)))
  let line = ''
  process.stdin.setEncoding('utf8').on('data', data => {
    const lines = (line + data).split('\n')
    line = lines.pop()
    for (const one of lines.map(l => JSON.parse(l))) {
      if (!('interrupt' in one)) queue.push(one)
      else if (one.interrupt === now) {
        child.send(one)
        setTimeout(() => { if (one.interrupt === now) child.kill('SIGKILL') }, INTERRUPT_MS)
      } else if (queue.some(cell => cell.id === one.interrupt)) queue.splice(queue.findIndex(cell => cell.id === one.interrupt), 1)
    }
    next()
  }).on('end', () => child.kill('SIGKILL'))
}

function cells() {
  const {Session} = require('node:inspector')
  const {inspect} = require('node:util')
  const {writeSync} = require('node:fs')
  const mark = `\0${process.argv[2]}\0`, send = process.send.bind(process), session = new Session()
  session.connect()
  let count = 0, last, stop = () => {}
  const post = (method, params) => new Promise((well, ill) => session.post(method, params, (e, v) => e ? ill(e) : well(v)))
  const say = (type, event) => new Promise(sent => send({type, event}, sent))
  const writeAll = (fd, text) => {
    for (let data = Buffer.from(text); data.length;) {
      try { data = data.subarray(writeSync(fd, data)) } catch (e) { if (e.code !== 'EAGAIN') throw e }
    }
  }
  Object.defineProperty(globalThis, Symbol.for('berth.keep'), {value(value) { last = value }})
  const held = async object => {      // the value behind what the inspector says of it
    last = undefined
    if (object.objectId)
      await post('Runtime.callFunctionOn', {objectId: object.objectId, functionDeclaration:
        'function() { globalThis[Symbol.for("berth.keep")](this) }'})
    else if (object.type !== 'undefined')
      last = object.type === 'symbol' ? object.description : object.subtype === 'null' ? null :
        'unserializableValue' in object ? (0, eval)(object.unserializableValue) : object.value
    return last
  }
  const forms = {html: '_toHtml', svg: '_toSvg', png: '_toPng', jpeg: '_toJpeg', markdown: '_toMarkdown', latex: '_toLatex'}
  const result = (value, is_main_result) => {
    const event = {text: inspect(value).replace(/^(['"])(.*)\1$/s, '$2'), is_main_result}
    for (const [kind, method] of Object.entries(forms)) {
      try {
        if (value && typeof value[method] === 'function') event[kind] = String(value[method]())
      } catch { /* it has none */ }
    }
    return say('result', event)
  }
  const error = e => say('error', e instanceof Error || (e && e.stack && e.name) ?
    {name: String(e.name), value: String(e.message), traceback: String(e.stack).split('\n    at Session.post ')[0]} :
    {name: 'Error', value: inspect(e), traceback: `Uncaught ${inspect(e)}`})
  const globals = {
    require: require('node:module').createRequire(process.cwd() + '/'),
    display: (...values) => { values.forEach(v => result(v, false)) },
    __import: name => import(/^[./]/.test(name) ? require('node:url').pathToFileURL(require('node:path').resolve(name)).href : name),
  }
  Object.assign(globalThis, globals)
  // the inspector's scripts know no modules
  const imports = code => code
    .replace(/^[ \t]*import\s+(?:([\w$]+)\s*,?\s*)?(?:\*\s+as\s+([\w$]+)|\{([^}]*)\})?\s*from\s*(['"][^'"]+['"]);?[ \t]*$/gm,
      (all, preset, star, names, from) => [preset && `const ${preset} = (await __import(${from})).default;`,
        star && `const ${star} = await __import(${from});`,
        names && `const {${names.replace(/\bas\b/g, ':')}} = await __import(${from});`].filter(Boolean).join(' ') || all)
    .replace(/^[ \t]*import\s*(['"][^'"]+['"]);?[ \t]*$/gm, 'await __import($1);')
    .replace(/(^\s*|[=(,;:?[]\s*|\b(?:await|return)\s+|=>\s*)import\(/gm, '$1__import(')
  const types = process.argv[3] === 'typescript'
  const plain = code => {
    const strip = require('node:module').stripTypeScriptTypes
    if (types && !strip) throw Object.assign(new Error('cells in typescript need node 22.13 or newer in the image'), {name: 'KernelMissing'})
    return types ? strip(code, {mode: 'transform'}) : code
  }
  const evaluate = async code => {
    const r = await post('Runtime.evaluate', {expression: `${imports(plain(code))}\n//# sourceURL=cell-${count}`, replMode: true, awaitPromise: true})
    if (r.exceptionDetails) return error(await held(r.exceptionDetails.exception))
    let value = await held(r.result)
    if (value instanceof Promise) value = await value
    if (value !== undefined) return result(value, true)
  }
  const run = async cell => {
    const before = {...process.env}
    await say('number_of_executions', {execution_count: ++count})
    Object.assign(process.env, cell.env || {})
    const stopped = new Promise((well, ill) => {
      stop = id => { if (id === cell.id) ill(Object.assign(new Error('the cell was interrupted'), {name: 'KeyboardInterrupt'})) }
    })
    try { await Promise.race([evaluate(cell.code), stopped]) } catch (e) { await error(e) }
    for (const name of Object.keys(process.env)) delete process.env[name]
    Object.assign(process.env, before)
    last = undefined
    await post('Runtime.discardConsoleEntries', {}).catch(() => {})
    for (const fd of [1, 2])    // which node itself writes to at once, when they are pipes
      try { writeAll(fd, mark) } catch { /* the cell closed it, which is its end, too */ }
    send({type: 'cell_end'})
  }
  process.on('message', m => 'interrupt' in m ? stop(m.interrupt) : run(m))
  const late = e => { process.stderr.write(`Uncaught ${inspect(e)}\n`) }
  process.on('uncaughtException', late)
  process.on('unhandledRejection', late)
}
