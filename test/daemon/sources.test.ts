import assert from 'node:assert/strict'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { execPluginRunner } from '../../src/daemon/sources.ts'

async function script(t: TestContext, body: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kube-ipvs-plugin-'))
  t.after(() => rm(folder, { recursive: true }))
  const path = join(folder, 'login')
  await writeFile(path, `#!/bin/sh\ncd "${folder}"\n${body}\n`)
  await chmod(path, 0o755)
  return path
}

test('execPluginRunner runs a plugin with our environment, its own, and an empty standard input', async (t) => {
  const command = await script(t, 'read line; echo "$? $REGION $HOME $*"')
  const result = await execPluginRunner()({ command, args: ['a b', 'c'], env: { REGION: 'eu' } })
  assert.deepEqual(result, { exitCode: 0, output: `1 eu ${process.env['HOME'] ?? ''} a b c\n`, errorText: '' })
})

test('execPluginRunner finds a plugin by its name alone and resolves to undefined when there is none', async () => {
  const run = execPluginRunner()
  assert.equal((await run({ command: 'true', args: [], env: {} }))?.exitCode, 0)
  assert.equal(await run({ command: 'no-such-plugin', args: [], env: {} }), undefined)
  assert.equal(await run({ command: '/no/such/plugin', args: [], env: {} }), undefined)
})

test('execPluginRunner kills a plugin that hangs with everything that it started', async (t) => {
  const command = await script(t, 'echo $$ >pids; sleep 300 & echo $! >>pids; wait')
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const run = execPluginRunner()({ command, args: [], env: {} })
  const ids = async (): Promise<string[]> =>
    (await readFile(join(command, '../pids'), 'utf8').catch(() => '')).split('\n').filter(Boolean)
  while ((await ids()).length < 2) await new Promise(setImmediate)
  t.mock.timers.tick(60_000)
  await assert.rejects(run, { code: 'program-timeout' })
  for (const id of await ids()) while (await isRunning(id)) await new Promise(setImmediate)
})

/** Whether a process is there and is no zombie. */
async function isRunning(processId: string): Promise<boolean> {
  return /^State:\s+[^ZX]/m.test(await readFile(`/proc/${processId}/status`, 'utf8').catch(() => ''))
}
