import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { diffVirtualServer } from '../../src/ipvs/diff.ts'
import { formatOperation } from '../../src/ipvs/text.ts'
import { virtualServerKey } from '../../src/ipvs/types.ts'
import { liveVirtualServer, wantedVirtualServer } from '../support/virtual-servers.ts'
import { parseOperation } from './parse-operation.ts'

describe('formatOperation', () => {
  it('writes every part as ipvsadm does', () => {
    const virtual = {
      family: 'IPv6' as const,
      address: 'fd00:10:96::1',
      port: 53,
      protocol: 'udp' as const,
      scheduler: 'mh',
      flags: 0x19,
      timeoutSeconds: 10800,
      netmask: 64,
      persistenceEngine: '',
      realServers: [
        {
          address: 'fd00::2',
          port: 53,
          weight: 1,
          forwarding: 'masquerade' as const,
          upperThreshold: 0,
          lowerThreshold: 0,
        },
      ],
    }
    assert.deepEqual(diffVirtualServer(virtualServerKey(virtual), virtual, undefined).map(formatOperation), [
      'ipvsadm -A -u [fd00:10:96::1]:53 -s mh -p 10800 -M 64 -b mh-fallback,mh-port',
      'ipvsadm -a -u [fd00:10:96::1]:53 -r [fd00::2]:53 -m -w 1',
    ])
  })

  it('is reversed by parseOperation', () => {
    fc.assert(
      fc.property(wantedVirtualServer, fc.option(liveVirtualServer, { nil: undefined }), (desired, live) => {
        const key = virtualServerKey(desired)
        for (const op of [
          ...diffVirtualServer(key, desired, live),
          ...diffVirtualServer(key, undefined, live ?? desired),
        ]) {
          const text = formatOperation(op)
          const parsed = parseOperation(text)
          assert.ok(parsed !== undefined, text)
          assert.equal(formatOperation(parsed), text)
          if ('realServer' in op && 'realServer' in parsed && op.kind !== 'delete-real-server')
            assert.deepEqual(parsed.realServer, op.realServer)
          if (op.kind === 'add-virtual-server') assert.deepEqual(parsed.server, { ...op.server, realServers: [] })
        }
      }),
    )
  })

  it('is undefined for other text', () => {
    for (const text of ['', 'ipvsadm', 'ipset add x 1', 'ipvsadm -Q -t 1.1.1.1:80', 'ipvsadm -a -t 1.1.1.1:80'])
      assert.equal(parseOperation(text), undefined)
  })
})
