/** The authorizer of the tests' API server: what a request wants, and which rules allow it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { actionOf, Authorizer, isAllowed, type PolicyRule } from '../../dev/api-server/authorizer.ts'

const url = (path: string): URL => new URL(path, 'http://server')
const seen = (method: string, path: string): string => {
  const action = actionOf(method, url(path))
  if (action === undefined) return ''
  const { verb, group, resource, namespace, name } = action
  return [verb, group || 'core', resource, namespace || '-', name || '-'].join(' ')
}

test('actionOf derives the action from method and URL, as a real server does', () => {
  const rows: readonly (readonly [method: string, path: string, expected: string])[] = [
    ['GET', '/api/v1/services?limit=500', 'list core services - -'],
    ['GET', '/api/v1/services?watch=true', 'watch core services - -'],
    ['GET', '/api/v1/nodes?watch=true&fieldSelector=metadata.name%3Dnode0', 'watch core nodes - node0'],
    ['GET', '/api/v1/nodes/node0', 'get core nodes - node0'],
    ['GET', '/apis/discovery.k8s.io/v1/endpointslices', 'list discovery.k8s.io endpointslices - -'],
    ['POST', '/apis/events.k8s.io/v1/namespaces/demo/events', 'create events.k8s.io events demo -'],
    ['PATCH', '/apis/events.k8s.io/v1/namespaces/demo/events/web.1', 'patch events.k8s.io events demo web.1'],
    ['PUT', '/api/v1/nodes/node0/status', 'update core nodes/status - node0'],
    ['DELETE', '/api/v1/namespaces/demo/configmaps/c', 'delete core configmaps demo c'],
    ['DELETE', '/api/v1/namespaces/demo/configmaps', 'deletecollection core configmaps demo -'],
    ['GET', '/version', ''],
    ['GET', '/healthz', ''],
  ]
  for (const [method, path, expected] of rows) assert.equal(seen(method, path), expected, `${method} ${path}`)
})

test('isAllowed takes one rule that has group, resource, verb and name', () => {
  const rule: PolicyRule = { apiGroups: [''], resources: ['services', 'nodes'], verbs: ['list'] }
  const action = { verb: 'list', group: '', resource: 'nodes', namespace: '', name: '' }
  assert.equal(isAllowed([rule], action), true)
  for (const other of [{ verb: 'watch' }, { group: 'apps' }, { resource: 'nodes/status' }, { resource: 'pods' }])
    assert.equal(isAllowed([rule], { ...action, ...other }), false, JSON.stringify(other))
  // Half of it from one rule and half from another is not enough.
  const halves = [
    { ...rule, verbs: ['get'] },
    { ...rule, resources: ['pods'] },
  ]
  assert.equal(isAllowed(halves, action), false)
  const named = { ...rule, resourceNames: ['node0'] }
  assert.equal(isAllowed([named], action), false)
  assert.equal(isAllowed([named], { ...action, name: 'node0' }), true)
  assert.equal(isAllowed([{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }], action), true)
})

test('Authorizer refuses with the message of a real server, and remembers what was requested', () => {
  const authorizer = new Authorizer()
  assert.equal(authorizer.refusalOf('GET', url('/api/v1/services')), undefined)
  authorizer.rules = []
  assert.equal(
    authorizer.refusalOf('GET', url('/api/v1/services')),
    'services is forbidden: User "system:serviceaccount:kube-system:kube-ipvs" cannot list resource "services" in API group "" at the cluster scope',
  )
  assert.equal(
    authorizer.refusalOf('PATCH', url('/apis/events.k8s.io/v1/namespaces/demo/events/web.1')),
    'events.events.k8s.io "web.1" is forbidden: User "system:serviceaccount:kube-system:kube-ipvs" cannot patch resource "events" in API group "events.k8s.io" in the namespace "demo"',
  )
  assert.deepEqual([authorizer.requested.length, authorizer.refused.length], [3, 2])
})
