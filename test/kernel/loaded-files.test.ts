/** What a running daemon has loaded: no file of the tools, also after tools have asked it everything. */
import assert from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { relative } from 'node:path'
import { after, before, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ApiServer } from '../../dev/api-server/server.ts'
import { isTool } from '../rules/check.ts'
import { ENTRIES } from '../rules/rules.ts'
import { eventually } from '../support/deadline.ts'
import { Workbench } from '../support/daemon.ts'
import { freshNode, virtualServers } from '../support/kernel-state.ts'
import { node, service, slice } from '../support/manifests.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const HOOK = new URL('../support/loaded-files.mjs', import.meta.url).href
const server = new ApiServer()
let bench: Workbench
let list = ''

before(async () => {
  freshNode()
  server.store.put('nodes', node(['10.0.2.15']))
  server.store.put('services', service('web', { clusterIP: '10.96.0.1' }))
  server.store.put('endpointslices', slice('web', ['10.244.0.1']))
  await server.listen()
  bench = new Workbench()
  list = `${bench.directory}.loaded`
})
after(async () => {
  await bench.close()
  await server.close()
  rmSync(list, { force: true })
})

it('a daemon loads no file of the tools, also when tools have asked it', async (t) => {
  // The bundle has no files; what is in it is tested in test/dev/bundle.test.ts.
  bench.program = `${ROOT}src/main.ts`
  bench.env = { NODE_OPTIONS: `--import=${HOOK}`, KUBE_IPVS_LOADED_FILES: list }
  const child = bench.startOnApi(bench.kubeconfig(server.url))
  await eventually(() => assert.equal(virtualServers().length, 2, bench.log), 60_000)
  bench.env = {}
  for (const words of [
    ['status'],
    ['explain', 'demo/web'],
    ['drain'],
    ['drain', '--wait', '10.244.0.1', '--timeout', '0s'],
  ])
    assert.equal((await bench.run(...words, '--socket', bench.socket)).stderr, '', words.join(' '))
  assert.equal(await bench.stop(child), 143)
  const loaded = (JSON.parse(readFileSync(list, 'utf8')) as string[]) // written by HOOK
    .map((path) => relative(ROOT, path))
    .filter((path) => /^(src|native)\//.test(path))
  assert.ok(loaded.includes(ENTRIES.daemon), loaded.join(' '))
  assert.ok(loaded.includes('src/daemon/local-answers.ts'), 'nothing has asked it')
  assert.deepEqual(loaded.filter(isTool), [])
  const lines = loaded.map((path) => readFileSync(`${ROOT}${path}`, 'utf8').split('\n').length - 1)
  t.diagnostic(`${loaded.length} files with ${lines.reduce((sum, count) => sum + count, 0)} lines`)
})
