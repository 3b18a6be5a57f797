/** One rule loop over iptables in memory: when it counts as clean, which begins the removal of what another mode left. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { IptablesTable } from '../../src/iptables/table.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/rules/render.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { RuleLoop } from '../../src/modes/rule-loops.ts'
import { MemoryIptables } from '../iptables/memory-iptables.ts'
import { until } from '../support/deadline.ts'
import { everything } from './ipvs/rules/wanted.ts'

it('RuleLoop is clean when only a chain cannot be deleted, and not while a wanted chain is missing', async (context) => {
  const memory = new MemoryIptables()
  memory.run('filter', '-N KUBE-NODEPORTS')
  memory.run('filter', '-A INPUT -s 192.0.2.1 -j KUBE-NODEPORTS')
  let passes = 0
  const failed: string[] = []
  const loop = new RuleLoop(new IptablesTable('IPv4', memory, IPVS_LAYOUT), {
    now: () => performance.now(),
    onPass: ({ failures }) => {
      passes++
      failed.push(...failures.map(({ key }) => key))
    },
    onMissing: (error) => assert.fail(error),
    onError: (error) => assert.fail(String(error)),
  })
  context.after(() => loop.close())
  for (const [key, item] of renderIpvsRules(everything('IPv4')).items) loop.sync.want(key, item)
  memory.refuse = (line) => (line.startsWith('-A KUBE-FORWARD') ? 'refused' : undefined)
  loop.allowRemovals()
  await until('a pass', () => passes > 0)
  assert.deepEqual(new Set(failed), new Set(['filter KUBE-FORWARD', 'filter KUBE-NODEPORTS']))
  assert.equal(loop.isClean, false)
  memory.refuse = () => undefined
  await until('a clean pass', () => loop.isClean)
  assert.match(memory.text(), /-A INPUT -s 192\.0\.2\.1\/32 -j KUBE-NODEPORTS/)
})
