/**
 * One rule loop over iptables in memory: when it counts as clean, which begins the removal of what
 * another mode left, and which passes are full.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { IptablesTable } from '../../src/iptables/table.ts'
import { renderIpvsRules } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { RuleLoop } from '../../src/modes/rule-loops.ts'
import { MemoryIptables } from '../iptables/memory-iptables.ts'
import { until } from '../support/deadline.ts'
import { everything } from './ipvs/iptables-firewall/rules/wanted.ts'

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

it('RuleLoop is clean although a chain is refused for ever, and not before it was refused five times', async (context) => {
  const memory = new MemoryIptables()
  memory.refuse = (line) => (line.startsWith('-A KUBE-FORWARD') ? 'refused' : undefined)
  const [clean, clock] = [new Array<boolean>(), { nowMs: 0 }]
  const loop = new RuleLoop(new IptablesTable('IPv4', memory, IPVS_LAYOUT), {
    now: () => clock.nowMs,
    onPass: (_, __, { isClean }) => void clean.push(isClean),
    onMissing: (error) => assert.fail(error),
    onError: (error) => assert.fail(String(error)),
  })
  context.after(() => loop.close())
  for (const [key, item] of renderIpvsRules(everything('IPv4')).items) loop.sync.want(key, item)
  loop.allowRemovals()
  for (let tries = 1; tries <= 6; tries++) {
    await until('a pass', () => clean.length >= tries)
    clock.nowMs += 60_000
    loop.request()
  }
  assert.deepEqual(clean.slice(0, 6), [false, false, false, false, true, true])
})

it('RuleLoop calls the first pass that writes full, also after one that only read', async (context) => {
  const passes: (readonly [applied: number, isFull: boolean])[] = []
  const loop = new RuleLoop(new IptablesTable('IPv4', new MemoryIptables(), IPVS_LAYOUT), {
    now: () => performance.now(),
    onPass: ({ applied }, _, __, isFull) => void passes.push([applied, isFull]),
    onMissing: (error) => assert.fail(error),
    onError: (error) => assert.fail(String(error)),
  })
  context.after(() => loop.close())
  const passed = async (): Promise<readonly [boolean, boolean] | undefined> => {
    const before = passes.length
    loop.request()
    await until('a pass', () => passes.length > before)
    const [applied = 0, isFull = false] = passes.at(-1) ?? []
    return [applied > 0, isFull]
  }
  assert.deepEqual(await passed(), [false, true])
  const items = [...renderIpvsRules(everything('IPv4')).items]
  const [last] = items.splice(-1)
  for (const [key, item] of items) loop.sync.want(key, item)
  assert.deepEqual(await passed(), [true, true])
  if (last !== undefined) loop.sync.want(...last)
  assert.deepEqual(await passed(), [true, false])
})
