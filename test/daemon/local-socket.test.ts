/** The life of the local socket in the file system, with real sockets in a temporary folder. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { connect, createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { LocalSocket } from '../../src/daemon/local-socket.ts'
import { askDaemon, isUnknown } from '../../src/inspect/daemon-client.ts'
import { eventually } from '../support/deadline.ts'
import { inspectedOf, SocketFolder } from '../support/local-daemon.ts'

let folder: SocketFolder
beforeEach(() => {
  folder = new SocketFolder()
})
afterEach(() => folder.close())

const inspected = inspectedOf([])
const answers = async (): Promise<boolean> => !isUnknown(await askDaemon(folder.path).daemon())
/** Reasons of the warnings, in order. */
const reasons = (): unknown[] =>
  folder.log.lines.filter(({ level }) => level === 'warn').map(({ fields }) => fields['reason'])

/** Leaves the socket of a process that was killed. */
async function leaveStaleSocket(): Promise<void> {
  mkdirSync(dirname(folder.path))
  const script = `require('node:net').createServer().listen(process.argv[1], () => console.log('x'))`
  const child = spawn(process.execPath, ['-e', script, folder.path], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.ok(statSync(folder.path).isSocket())
}

describe('LocalSocket', () => {
  it('makes a folder and a socket that only its user may use, and removes the socket when it closes', async () => {
    const socket = await folder.serve(() => inspected)
    assert.equal(statSync(dirname(folder.path)).mode & 0o777, 0o700)
    assert.equal(statSync(folder.path).mode & 0o777, 0o600)
    assert.ok(await answers())
    socket.close()
    assert.equal(existsSync(folder.path), false)
    assert.deepEqual(reasons(), [])
  })

  it('does not change the mask of the process', async () => {
    const before = process.umask()
    await folder.serve(() => inspected)
    assert.equal(process.umask(), before)
  })

  it('replaces the socket of a process that is gone', async () => {
    await leaveStaleSocket()
    assert.equal(await answers(), false)
    await folder.serve(() => inspected)
    assert.ok(await answers())
    assert.deepEqual(reasons(), [])
  })

  it('leaves the socket that another process has put there while it asked who listens', async () => {
    await leaveStaleSocket()
    const other = createServer()
    const socket = new LocalSocket({
      path: folder.path,
      answer: () => ({ status: 200, headers: [], body: '' }),
      log: folder.log,
      isAnswered: async (path) => {
        unlinkSync(path)
        await once(other.listen(path), 'listening')
        return false
      },
    })
    await socket.open()
    assert.deepEqual(reasons(), ['another process listens on it'])
    const client = connect(folder.path)
    await once(client, 'connect')
    client.destroy()
    socket.close()
    other.close()
  })

  it('leaves the socket of a process that listens, says so once, and takes the path when that process has ended', async () => {
    const first = await folder.serve(() => inspected)
    const second = await folder.serve(() => inspected)
    assert.deepEqual(reasons(), ['another process listens on it'])
    assert.ok(await answers())
    first.close()
    await eventually(async () => assert.ok(await answers()))
    assert.ok(folder.log.lines.some(({ message }) => message === 'The local socket is open now'))
    // However many attempts there were.
    assert.deepEqual(reasons(), ['another process listens on it'])
    second.close()
    assert.equal(existsSync(folder.path), false)
  })

  it('counts a process that hangs as one that listens', async () => {
    mkdirSync(dirname(folder.path))
    const script = `require('node:net').createServer().listen(process.argv[1], () => console.log('x'))`
    const child = spawn(process.execPath, ['-e', script, folder.path], { stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      await once(child.stdout, 'data')
      child.kill('SIGSTOP')
      await folder.serve(() => inspected)
      assert.deepEqual(reasons(), ['another process listens on it'])
    } finally {
      child.kill('SIGKILL')
    }
  })

  it('never removes a file, a folder or a link at its path, and opens when it is gone', async () => {
    mkdirSync(dirname(folder.path))
    const makers: readonly (() => void)[] = [
      () => writeFileSync(folder.path, 'precious'),
      () => mkdirSync(folder.path),
      () => symlinkSync(join(folder.folder, 'elsewhere'), folder.path),
    ]
    for (const make of makers) {
      make()
      const socket = await folder.serve(() => inspected)
      assert.equal(reasons().at(-1), 'the path has a file that is no socket, which is never removed')
      const { message } = folder.log.lines.findLast(({ level }) => level === 'warn') ?? { message: '' }
      assert.match(message, /kubeIPVS\.socket/)
      assert.equal(await answers(), false)
      rmSync(folder.path, { recursive: true })
      await eventually(async () => assert.ok(await answers()))
      socket.close()
    }
    assert.equal(reasons().length, makers.length)
    writeFileSync(folder.path, 'precious')
    ;(await folder.serve(() => inspected)).close()
    assert.equal(readFileSync(folder.path, 'utf8'), 'precious')
  })

  it('uses no folder in which others could replace the socket, and a shared one only with the sticky bit', async () => {
    mkdirSync(dirname(folder.path))
    chmodSync(dirname(folder.path), 0o777)
    await folder.serve(() => inspected)
    assert.match(String(reasons()[0]), /^other users may write to the folder /)
    chmodSync(dirname(folder.path), 0o1777)
    await eventually(async () => assert.ok(await answers()))
  })

  it('says why a path cannot be made, and goes on', async () => {
    writeFileSync(join(folder.folder, 'file'), '')
    const broken = [
      join(folder.folder, 'file', 'x.sock'),
      '/proc/kube-ipvs/x.sock',
      join(folder.folder, 'x'.repeat(300)),
    ]
    for (const path of broken) {
      const socket = await folder.serve(() => inspected, { path })
      socket.close()
    }
    assert.match(String(reasons()[0]), /^ENOTDIR/)
    assert.match(String(reasons()[1]), /^ENOENT/)
    assert.equal(reasons().length, 3)
  })

  it('ends its attempts when it closes', async () => {
    mkdirSync(dirname(folder.path))
    writeFileSync(folder.path, '')
    const socket = await folder.serve(() => inspected)
    socket.close()
    rmSync(folder.path)
    await new Promise((resolve) => setTimeout(resolve, 100))
    assert.equal(existsSync(folder.path), false)
  })

  it('is closed to other users', { skip: process.getuid?.() === 0 ? false : 'needs root' }, async () => {
    await folder.serve(() => inspected)
    chmodSync(folder.folder, 0o755)
    chmodSync(dirname(folder.path), 0o755)
    const script = `const s = require('node:net').connect(process.argv[1]); s.on('error', (e) => console.log(e.code)); s.on('connect', () => { console.log('open'); s.destroy() })`
    const asked = spawn(process.execPath, ['-e', script, folder.path], {
      uid: 65_534,
      gid: 65_534,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    assert.equal(String((await once(asked.stdout, 'data'))[0]).trim(), 'EACCES')
  })
})
