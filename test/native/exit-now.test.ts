import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { deadline } from '../support/deadline.ts'

const EXIT_NOW = new URL('../../native/exit-now.ts', import.meta.url).href

describe('exitNow', () => {
  const folder = mkdtempSync(join(tmpdir(), 'exit-now-'))
  after(() => rmSync(folder, { recursive: true }))

  it('ends a process in which a file operation hangs, after its listeners', () => {
    const pipe = join(folder, 'pipe')
    execFileSync('mkfifo', [pipe])
    // Nobody opens the pipe for writing, so a thread of Node waits there.
    const script = `import { open } from 'node:fs'
import { exitNow } from '${EXIT_NOW}'
process.on('exit', (code) => console.log('listener', code))
open('${pipe}', 'r', () => undefined)
setTimeout(() => exitNow(3), 100)`
    const { status, signal, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
      timeout: deadline(15_000),
      killSignal: 'SIGKILL',
    })
    assert.deepEqual([status, signal, stdout], [3, null, 'listener 3\n'])
  })
})
