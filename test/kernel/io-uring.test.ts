/**
 * io_uring is off in every guest: user-mode Linux 7.2 panics when a process that has rings forks,
 * and UV_USE_IO_URING=0 does not keep Node from making them.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { needs } from './needs.ts'

/** Reads a file in each of the ways that libuv has, then prints what its file descriptors are. */
const READER = `
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
readFileSync('/etc/passwd')
await Promise.all(Array.from({ length: 20 }, () => readFile('/etc/passwd')))
const file = await open('/etc/passwd')
for await (const line of file.readLines()) void line
for (const fd of readdirSync('/proc/self/fd'))
  try {
    console.log(readlinkSync('/proc/self/fd/' + fd))
  } catch {
    // the folder's own descriptor
  }
`

describe('io_uring in a guest', needs('guest', 'kernel>=6.6'), () => {
  it('is switched off by its sysctl', () => {
    assert.equal(readFileSync('/proc/sys/kernel/io_uring_disabled', 'utf8').trim(), '2')
  })

  it('gives no rings to a Node process that reads files', () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', READER], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] },
      timeout: 60_000,
    })
    assert.equal(status, 0, stderr)
    // libuv always polls with epoll, so a list with epoll is the right one.
    assert.match(stdout, /anon_inode:\[eventpoll\]/)
    assert.doesNotMatch(stdout, /io_uring/)
  })
})
