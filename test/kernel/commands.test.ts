/**
 * Commands in a process of their own, as an operator runs them: they print and end as in the
 * process of the tests, where most tests run them.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Status } from '../../src/cli/node-status.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { freshNode } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'

/** What differs from one moment to the next: numbers, and so the widths of columns. */
const withoutNumbers = (text: string): string =>
  text
    .replaceAll(/\d+(\.\d+)?/g, '#')
    .replaceAll(/# ?(ms|s|MiB|KiB)\b/g, '#')
    .replaceAll(/ +/g, ' ')

describe('a command in a process of its own', () => {
  let bench: Workbench
  before(async () => {
    freshNode()
    bench = new Workbench()
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
    bench.start()
    // Both of two runs see a node that has everything.
    await eventually(async () => {
      const { stdout, stderr } = await bench.command('status', '--output', 'json')
      assert.notEqual(stdout, '', stderr)
      assert.deepEqual((JSON.parse(stdout) as Status).verdict.reasons, []) // what our own program prints
    })
  })
  after(() => bench.close())

  const source = () => ['--config', bench.configurationFile, '--socket', bench.socket]
  const rows: readonly (readonly [command: string, flags: () => readonly string[], code: number])[] = [
    ['status', () => ['--socket', bench.socket], 0],
    ['diff', () => [...source(), '--manifests', bench.directory], 0],
    ['explain', () => ['demo/web', ...source()], 0],
    ['top', () => ['--socket', bench.socket, '--interval', '100ms'], 0],
    ['drain', () => ['--socket', bench.socket], 0],
    ['drain', () => ['--wait', '10.244.0.9', '--socket', bench.socket], 0],
    ['drain', () => ['10.244.0.9', '--socket', bench.socket], 1],
    ['doctor', () => ['--config', bench.configurationFile], 0],
    ['cleanup', () => ['--dry-run', '--config', bench.configurationFile], 0],
    ['explain', () => ['nothing/here', ...source()], 2],
    ['status', () => ['--no-such-flag'], 1],
  ]
  for (const [command, flags, code] of rows)
    it(`is as in the process of the tests: ${command} ends with ${code}`, async () => {
      const args = [command, ...flags()]
      const [own, other] = [await bench.run(...args), await bench.runProcess(...args)]
      assert.equal(other.code, code, `${other.stderr}${other.stdout}`)
      for (const part of ['stdout', 'stderr'] as const)
        assert.equal(withoutNumbers(own[part]), withoutNumbers(other[part]), part)
      assert.equal(own.code, code)
    })
})
