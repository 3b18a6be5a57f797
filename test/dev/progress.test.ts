/** Running programs to their end, as everything in dev does. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { finish, projectFolder } from '../../dev/progress.mjs'
import { deadline } from '../support/deadline.ts'

const PROGRESS = join(projectFolder, 'dev/progress.mjs')

describe('finish', () => {
  it('returns the exit code and what was printed, and 124 of a program that is ended after its time', async () => {
    assert.deepEqual(await finish('/bin/sh', ['-c', 'echo out; exit 3']), { code: 3, output: 'out\n' })
    const late = await finish('/bin/sh', ['-c', 'echo begun; exec sleep 600'], { timeoutMs: 300 })
    assert.deepEqual(late, { code: 124, output: 'begun\n' })
  })

  it('reports a program that is not there, and keeps no process alive for its time limit', () => {
    const text = `import { finish } from '${PROGRESS}'; console.log((await finish('/nonexistent', [])).code)`
    const options = { encoding: 'utf8', timeout: deadline(15_000) } as const
    const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', text], options)
    assert.deepEqual([status, stdout], [0, '127\n'])
  })
})

describe('stopPrograms', () => {
  it('ends what runs and lets nothing else begin', () => {
    const text = `import { finish, stopPrograms } from '${PROGRESS}'
      const one = finish('/bin/sh', ['-c', 'exec sleep 600'])
      stopPrograms()
      console.log((await one).code, (await finish('/bin/sh', ['-c', 'exit 0'])).code)`
    const options = { encoding: 'utf8', timeout: deadline(15_000) } as const
    const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', text], options)
    assert.deepEqual([status, stdout], [0, '124 124\n'])
  })
})
