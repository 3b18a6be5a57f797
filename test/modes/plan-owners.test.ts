/** Which rows of a plan name a Service. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { WantedObject } from '../../src/explain/wanted-objects.ts'
import { withOwners } from '../../src/modes/plan-owners.ts'
import type { AddressFrontend } from '../../src/service/frontends.ts'
import type { PlanRow } from '../../src/sync/plan.ts'
import { frontendOf } from '../support/frontends.ts'
import { MemoryWorld } from '../support/memory-world.ts'
import { service } from '../support/objects.ts'

const signal = new AbortController().signal

const claim = (owner: string, value: AddressFrontend) => ({ owner, rank: 0, since: 0, value })
const ownersIn = (rows: readonly PlanRow[], ...tables: readonly string[]) =>
  rows.flatMap(({ table, key, owner }) => (tables.includes(table) ? `${table} ${key} ${owner}` : []))

describe('withOwners', () => {
  it('names the Service of each item of ipvs mode, but not of one that two Services need or none', async () => {
    const dataplane = new MemoryWorld().dataplane()
    const claims = [
      claim('demo/web', frontendOf({}, ['1.1.1.1'])),
      claim('demo/web', frontendOf({ address: '10.96.0.2' }, ['1.1.1.1'])),
      claim('demo/api', frontendOf({ port: 443, service: service({ name: 'api' }) }, ['2.2.2.2'])),
    ]
    for (const { value } of claims) dataplane.frontend(value.key, value)
    const rows = withOwners(await dataplane.plan(signal), claims, dataplane)
    assert.deepEqual(ownersIn(rows, 'virtual-servers', 'addresses', 'device', 'set-entries'), [
      'set-entries KUBE-CLUSTER-IP 10.96.0.1,tcp:80 demo/web',
      'set-entries KUBE-IPVS-IPS 10.96.0.1 undefined',
      'set-entries KUBE-CLUSTER-IP 10.96.0.2,tcp:80 demo/web',
      'set-entries KUBE-IPVS-IPS 10.96.0.2 demo/web',
      'set-entries KUBE-CLUSTER-IP 10.96.0.1,tcp:443 demo/api',
      'virtual-servers 10.96.0.1:80/tcp demo/web',
      'virtual-servers 10.96.0.2:80/tcp demo/web',
      'virtual-servers 10.96.0.1:443/tcp demo/api',
      'device kube-ipvs0 undefined',
      'addresses 10.96.0.1 undefined',
      'addresses 10.96.0.2 demo/web',
    ])
  })

  it('names the Service of its own chains and of a route, but not that of a rule in a shared chain', () => {
    const common = { servicePort: 'demo/web:http', family: 'IPv6', table: 'nat' } as const
    const objects: readonly WantedObject[] = [
      { kind: 'chain', ...common, chain: 'KUBE-SVC-X', rules: [] },
      { kind: 'rule', ...common, chain: 'KUBE-SERVICES', rule: '-j KUBE-SVC-X' },
      { kind: 'route', frontend: '10.96.0.1:80/tcp', route: { address: '10.96.0.1', paths: [] } },
    ]
    const row = (table: PlanRow['table'], key: string): PlanRow => ({ table, key, state: 'present', operations: [] })
    const rows = [
      row('chains-IPv6', 'nat KUBE-SVC-X'),
      row('chains-IPv4', 'nat KUBE-SVC-X'),
      row('chains-IPv6', 'nat KUBE-SERVICES'),
      row('routes', '10.96.0.1'),
    ]
    const found = withOwners(rows, [claim('demo/web', frontendOf())], { wantedObjects: () => objects })
    assert.deepEqual(
      found.map(({ owner }) => owner),
      ['demo/web', undefined, undefined, 'demo/web'],
    )
  })
})
