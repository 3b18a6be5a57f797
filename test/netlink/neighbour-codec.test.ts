import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { decodeTunnelPeer } from '../../src/netlink/neighbour-codec.ts'
import { hex, message, onlyMessage } from './wire.ts'

describe('decodeTunnelPeer', () => {
  const entry = (header: string, attributes: string): string | undefined =>
    decodeTunnelPeer(onlyMessage(message(28, 0, 1, hex(`${header} ${attributes}`))))
  const PERMANENT = '07000000 05000000 8000 02 00'
  const MAC = '0a000200 0242ac120002 0000'

  it('reads the host of an entry that a program has written, of either family', () => {
    assert.equal(entry(PERMANENT, `${MAC} 08000100 c0a8010b`), '192.168.1.11')
    assert.equal(entry(PERMANENT, `14000100 fd000000000000000000000000000011 ${MAC}`), 'fd00::11')
  })

  it('returns undefined for an entry that was learned, for one of a bridge, and for another family', () => {
    assert.equal(entry('07000000 05000000 0200 02 00', `${MAC} 08000100 c0a8010b`), undefined)
    assert.equal(entry(PERMANENT, MAC), undefined)
    assert.equal(entry('02000000 05000000 8000 00 00', '08000100 c0a8010b'), undefined)
  })

  it('refuses what is no entry', () => {
    assert.throws(() => decodeTunnelPeer(onlyMessage(message(24, 0, 1, hex('00000000')))), {
      code: 'netlink-malformed',
    })
    assert.throws(() => decodeTunnelPeer(onlyMessage(message(28, 0, 1, hex('07000000')))), {
      code: 'netlink-malformed',
    })
  })
})
