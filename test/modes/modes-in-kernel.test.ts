/** Which modes the kernel has something of, by signs that only service proxies make. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseSave } from '../../src/iptables/save-text.ts'
import { answeringMode, modesIn, type ModeSigns, onlyMode } from '../../src/modes/modes-in-kernel.ts'

const saved = (table: string, ...chains: readonly string[]) =>
  parseSave([`*${table}`, ...chains.map((chain) => `:${chain} - [0:0]`), 'COMMIT'].join('\n'))
const NONE: ModeSigns = { hasDevice: false, hasLocalRoutes: false, rules: [] }
const KUBELET = saved('nat', 'KUBE-MARK-MASQ', 'KUBE-POSTROUTING', 'KUBE-KUBELET-CANARY')
const IPVS = saved('nat', 'KUBE-SERVICES', 'KUBE-LOAD-BALANCER')
const IPTABLES = saved('filter', 'KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES')

test('the device, a local route or the chains of a mode show it, and what kubelet writes shows none', () => {
  const rows: readonly [more: Partial<ModeSigns>, modes: readonly string[]][] = [
    [{}, []],
    [{ rules: [KUBELET] }, []],
    [{ hasDevice: true }, ['ipvs']],
    [{ hasLocalRoutes: true }, ['ipvs']],
    // Somebody has deleted the device.
    [{ rules: [KUBELET, IPVS] }, ['ipvs']],
    [{ rules: [IPTABLES] }, ['iptables']],
    [{ hasDevice: true, rules: [IPTABLES] }, ['ipvs', 'iptables']],
    [{ rules: [IPVS, IPTABLES] }, ['ipvs', 'iptables']],
  ]
  for (const [more, modes] of rows) assert.deepEqual(modesIn({ ...NONE, ...more }), modes, JSON.stringify(more))
})

test('of two modes none is the only one, and iptables mode answers new connections', () => {
  assert.deepEqual([onlyMode([]), onlyMode(['ipvs']), onlyMode(['iptables'])], [null, 'ipvs', 'iptables'])
  assert.equal(onlyMode(['ipvs', 'iptables']), null)
  assert.deepEqual([answeringMode([]), answeringMode(['ipvs'])], [undefined, 'ipvs'])
  assert.equal(answeringMode(['ipvs', 'iptables']), 'iptables')
})
