/** Which modes the kernel has something of, by signs that only service proxies make. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSave } from '../../src/iptables/save-text.ts'
import { answeringMode, firewallsIn, modesIn, type ModeSigns, onlyMode } from '../../src/modes/modes-in-kernel.ts'

const saved = (table: string, ...chains: readonly string[]) =>
  parseSave([`*${table}`, ...chains.map((chain) => `:${chain} - [0:0]`), 'COMMIT'].join('\n'))
const NONE: ModeSigns = { device: undefined, routes: new Map(), saved: {} }
const KUBELET = saved('nat', 'KUBE-MARK-MASQ', 'KUBE-POSTROUTING', 'KUBE-KUBELET-CANARY')
const IPVS = saved('nat', 'KUBE-SERVICES', 'KUBE-LOAD-BALANCER')
const IPTABLES = saved('filter', 'KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES')

test('the device, a local route or the chains of a mode show it, and what kubelet writes shows none', () => {
  const rows: readonly [more: Partial<ModeSigns>, modes: readonly string[]][] = [
    [{}, []],
    [{ saved: { IPv4: KUBELET } }, []],
    [{ device: {} }, ['ipvs']],
    [{ routes: { size: 1 } }, ['ipvs']],
    // Somebody has deleted the device.
    [{ saved: { IPv4: KUBELET, IPv6: IPVS } }, ['ipvs']],
    [{ privateTables: ['ip kube-ipvs'] }, ['ipvs']],
    [{ saved: { IPv4: IPTABLES } }, ['iptables']],
    [{ device: {}, saved: { IPv4: IPTABLES } }, ['ipvs', 'iptables']],
    [{ saved: { IPv4: IPVS, IPv6: IPTABLES } }, ['ipvs', 'iptables']],
  ]
  for (const [more, modes] of rows) assert.deepEqual(modesIn({ ...NONE, ...more }), modes, JSON.stringify(more))
})

test('of two modes none is the only one, and iptables mode answers new connections', () => {
  assert.deepEqual([onlyMode([]), onlyMode(['ipvs']), onlyMode(['iptables'])], [null, 'ipvs', 'iptables'])
  assert.equal(onlyMode(['ipvs', 'iptables']), null)
  assert.deepEqual([answeringMode([]), answeringMode(['ipvs'])], [undefined, 'ipvs'])
  assert.equal(answeringMode(['ipvs', 'iptables']), 'iptables')
})

test('chains of ipvs mode show the iptables firewall, and a private table the one of nftables', () => {
  const rows: readonly [more: Partial<ModeSigns>, firewalls: readonly string[]][] = [
    [{ device: {}, saved: { IPv4: IPTABLES } }, []],
    [{ saved: { IPv6: IPVS } }, ['iptables']],
    [{ privateTables: ['ip kube-ipvs'], saved: { IPv4: KUBELET } }, ['nftables']],
    [{ privateTables: ['ip kube-ipvs'], saved: { IPv4: IPVS } }, ['iptables', 'nftables']],
  ]
  for (const [more, firewalls] of rows)
    assert.deepEqual(firewallsIn({ ...NONE, ...more }), firewalls, JSON.stringify(more))
})
