import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApiStore, type Json, selectorOf } from '../../../dev/api-server/store.ts'
import type { ObjectKind } from '../../../src/service/objects.ts'
import { createIntern } from '../../../src/watch/objects/findings.ts'
import { parseMetadata } from '../../../src/watch/objects/object-parser.ts'
import { isSelected, selectionOf } from '../../../src/watch/objects/selection.ts'

const PROXY_NAME = { 'service.kubernetes.io/service-proxy-name': 'other' }
const HEADLESS = { 'service.kubernetes.io/headless': '' }

const ROWS: readonly [ObjectKind, string, object, object, boolean][] = [
  ['services', 'web', {}, { clusterIP: '10.96.0.1' }, true],
  ['services', 'web', {}, { clusterIP: 'None' }, false],
  ['services', 'web', {}, {}, true],
  ['services', 'web', PROXY_NAME, { clusterIP: '10.96.0.1' }, false],
  ['services', 'web', HEADLESS, { clusterIP: '10.96.0.1' }, true],
  ['endpointslices', 'web', {}, {}, true],
  ['endpointslices', 'web', HEADLESS, {}, false],
  ['endpointslices', 'web', PROXY_NAME, {}, true],
  ['nodes', 'node0', {}, {}, true],
  ['nodes', 'node1', {}, {}, false],
]

test('isSelected selects the same objects of a manifest as the selectors of selectionOf', () => {
  for (const [kind, name, labels, spec, expected] of ROWS) {
    const json: Json = { metadata: { name, labels }, spec }
    const metadata = parseMetadata(kind, json, createIntern())
    assert.ok(metadata)
    assert.equal(isSelected(kind, metadata, json, 'node0'), expected, JSON.stringify([kind, json]))
    const { labelSelector = '', fieldSelector = '' } = selectionOf(kind, 'node0')
    assert.equal(selectorOf(labelSelector, fieldSelector)(new ApiStore().put(kind, json)), expected)
  }
})
