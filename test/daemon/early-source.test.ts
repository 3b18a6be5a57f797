import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EarlySource } from '../../src/daemon/early-source.ts'
import type { ObjectChange } from '../../src/service/objects.ts'
import type { ObjectSink } from '../../src/watch/source.ts'

const change = (key: string): ObjectChange => ({ kind: 'services', key, value: undefined })

function recorder(): { readonly heard: string[]; readonly sink: ObjectSink } {
  const heard: string[] = []
  const sink: ObjectSink = {
    apply: (changes) => heard.push(...changes.map(({ key }) => key)),
    listed: (kind) => heard.push(`listed ${kind}`),
    problems: (subject, problems) => heard.push(`${subject}: ${problems.length} problems`),
  }
  return { heard, sink }
}

test('EarlySource tells what came before, in order and once, and then what comes', async () => {
  let source: ObjectSink | undefined
  let closed = 0
  const early = new EarlySource((sink) => {
    source = sink
    sink.apply([change('demo/a')])
    return { close: async () => void closed++ }
  })
  source?.problems('service demo/a', [])
  source?.listed('services')
  const { heard, sink } = recorder()
  const joined = early.join(sink)
  assert.deepEqual(heard, ['demo/a', 'service demo/a: 0 problems', 'listed services'])
  source?.apply([change('demo/b'), change('demo/c')])
  assert.deepEqual(heard.slice(3), ['demo/b', 'demo/c'])
  await joined.close()
  assert.equal(closed, 1)
})
