import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serviceOf, statusFilter } from '../../src/cli/status-filter.ts'

test('statusFilter takes names of Services and refuses every other word', () => {
  assert.deepEqual(statusFilter(['demo/web', 'kube-system/kube-dns'], {}).services, [
    'demo/web',
    'kube-system/kube-dns',
  ])
  for (const word of ['web', 'demo/', '/web', 'demo/web:http', 'demo/web/x', 'Demo/web', 'demo/we\x1b[2Jb', '../etc'])
    assert.throws(() => statusFilter([word], {}), /is not the NAMESPACE\/NAME of a Service$/, word)
})

test('serviceOf drops the name of the port', () => {
  assert.equal(serviceOf('demo/web:http'), 'demo/web')
  assert.equal(serviceOf('demo/web'), 'demo/web')
})
