import assert from 'node:assert/strict'
import { test } from 'node:test'
import { REPORTERS, Reporters } from '../../src/events/reporters.ts'

const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `node-${index}.example`)
const reportersOf = (nodes: readonly string[], object: string): string[] =>
  nodes.filter((node) => new Reporters(node, new Set(nodes)).includes(object))

test('Reporters are a few nodes for each object, whatever the number of nodes and their order', () => {
  for (const count of [0, 1, 2, 3, 4, 50, 500]) {
    const nodes = names(count)
    for (let index = 0; index < 5; index++) {
      const found = reportersOf(nodes, `Service demo/web-${index}`)
      assert.equal(found.length, Math.min(count, REPORTERS), `${count} nodes`)
      assert.deepEqual(reportersOf(nodes.toReversed(), `Service demo/web-${index}`).toSorted(), found.toSorted())
    }
  }
})

test('Reporters of many objects are spread over the nodes', () => {
  const nodes = names(20)
  const counts = nodes.map((node) => {
    const reporters = new Reporters(node, new Set(nodes))
    return Array.from({ length: 2000 }, (_, index) => reporters.includes(`Service demo/web-${index}`)).filter(Boolean)
      .length
  })
  // On average 300.
  assert.ok(Math.min(...counts) > 200 && Math.max(...counts) < 400, counts.join())
  assert.equal(
    counts.reduce((sum, count) => sum + count, 0),
    2000 * REPORTERS,
  )
})

test('Reporters change little when a node goes: the others go on', () => {
  const nodes = names(30)
  for (let index = 0; index < 20; index++) {
    const object = `Service demo/web-${index}`
    const before = reportersOf(nodes, object)
    const [gone] = before
    const after = reportersOf(
      nodes.filter((node) => node !== gone),
      object,
    )
    assert.deepEqual(
      before.slice(1).filter((node) => !after.includes(node)),
      [],
    )
  }
})

test('a node that is not among the nodes that all know reports nothing', () => {
  assert.equal(new Reporters('other', new Set(['node0'])).includes('Service demo/web'), false)
  assert.equal(new Reporters('other', new Set()).includes('Service demo/web'), false)
})
