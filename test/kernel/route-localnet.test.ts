/**
 * iptables mode and 127.0.0.0/8 on a real kernel: node ports are opened to it only behind its guard
 * (CVE-2020-8558).
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { freshNode, rulesText } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { IptablesPrograms } from '../support/iptables-programs.ts'
import { isMet } from './needs.ts'

const SYSCTL = '/proc/sys/net/ipv4/conf/all/route_localnet'
const SAVE = `iptables${isMet('iptables-nft') ? '' : '-legacy'}-save`
const IPTABLES = SAVE.replace('-save', '')
const CONFIGURATION = { mode: 'iptables', iptables: { minSyncPeriod: '0s', syncPeriod: '1s' } }
/** As kubelet appends it. */
const GUARD =
  '-m comment --comment "block incoming localnet connections" --dst 127.0.0.0/8 ! --src 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP'
const routesLocalnet = (): boolean => readFileSync(SYSCTL, 'utf8').trim() === '1'
const isGuarded = (): boolean => {
  const saved = rulesText(`${SAVE} -t filter`)
  const jumps = saved.split('\n').filter((line) => /^-A (INPUT|OUTPUT) -j KUBE-FIREWALL/.test(line))
  return jumps.length === 2 && /-A KUBE-FIREWALL ! -s 127\.0\.0\.0\/8 -d 127\.0\.0\.0\/8 .*-j DROP/.test(saved)
}

let bench: Workbench
let programs: IptablesPrograms
beforeEach(() => {
  freshNode()
  writeFileSync(SYSCTL, '0')
  bench = new Workbench({}, CONFIGURATION)
  programs = new IptablesPrograms()
  bench.env = { PATH: programs.path }
})
afterEach(async () => {
  await bench.close()
  programs.remove()
})

describe('route_localnet', () => {
  it('is not set while the rules of iptables mode cannot be written, and is set after them', async () => {
    programs.fail('iptables', true)
    bench.start()
    await eventually(() => assert.match(bench.log, /Failed to execute iptables-restore.*refused/))
    assert.deepEqual([isGuarded(), routesLocalnet()], [false, false])
    programs.fail('iptables', false)
    await eventually(() => assert.deepEqual([isGuarded(), routesLocalnet()], [true, true]))
    await eventually(() =>
      assert.match(bench.log, /"Changed sysctl" name="net\/ipv4\/conf\/all\/route_localnet" before=0 after=1/),
    )
  })

  it('is set by a restart that finds all rules unchanged', async () => {
    const daemon = bench.start()
    await eventually(() => assert.deepEqual([isGuarded(), routesLocalnet()], [true, true]))
    await bench.stop(daemon)
    writeFileSync(SYSCTL, '0')
    bench.start()
    await eventually(() => assert.equal(routesLocalnet(), true))
  })

  it('keeps its guard when node ports leave 127.0.0.0/8, after a restart and after a cleanup', async () => {
    const daemon = bench.start()
    await eventually(() => assert.deepEqual([isGuarded(), routesLocalnet()], [true, true]))
    bench.configure({ ...CONFIGURATION, nodePortAddresses: ['10.0.2.0/24'] })
    const isMoved = (): void =>
      assert.match(rulesText(`${SAVE} -t nat`), /-A KUBE-SERVICES -d 10\.0\.2\.15\/32 .* KUBE-NODEPORTS/)
    await eventually(isMoved)
    assert.equal(isGuarded(), true)
    await bench.stop(daemon)
    sh(`${IPTABLES} -t nat -F KUBE-SERVICES; ${IPTABLES} -D INPUT -j KUBE-FIREWALL`)
    const next = bench.start()
    await eventually(isMoved)
    assert.equal(isGuarded(), true)
    await bench.stop(next)
    const { code, stderr } = await bench.run('--cleanup')
    assert.deepEqual([code, stderr, isGuarded(), routesLocalnet()], [0, '', true, true])
  })

  it('that another program has set keeps the rule of kubelet', async () => {
    writeFileSync(SYSCTL, '1')
    sh(`${IPTABLES} -N KUBE-FIREWALL && ${IPTABLES} -A KUBE-FIREWALL ${GUARD}`)
    bench.configure({ ...CONFIGURATION, iptables: { ...CONFIGURATION.iptables, localhostNodePorts: false } })
    bench.start()
    await eventually(() => assert.match(rulesText(`${SAVE} -t nat`), /^:KUBE-SERVICES /m))
    await eventually(() => assert.equal(isGuarded(), true))
  })
})
