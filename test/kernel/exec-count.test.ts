/**
 * How often the daemon calls execve from its start to its end, counted by the kernel: with the
 * nftables firewall never after its own start, whatever happens to it; with iptables it does.
 * @also-bare
 */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { isBareGuest, NFT } from '../support/bare-guest.ts'
import type { Workbench } from '../support/daemon.ts'
import { AUDITED_MS, until } from '../support/deadline.ts'
import { bothFamilies, everyKind, settled, type VirtualAddresses } from '../support/every-kind.ts'
import { ExecCount } from '../support/exec-count.ts'
import { rowsOfRun } from '../support/extent.ts'
import { freshNode } from '../support/kernel-state.ts'
import { run, sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const CIDRS = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/47' }
const LOCAL = { externalTrafficPolicy: 'Local', healthCheckNodePort: 32_001 }
const RANGES = { loadBalancerSourceRanges: ['10.0.2.100/32', 'fd00:10:0:2::100/128'] }

const ENDED_BY_SIGTERM = 143

describe('the daemon', needs('x86-64'), () => {
  let bench: Workbench
  let count: ExecCount
  beforeEach(() => {
    freshNode()
    // Two addresses of each family, for `settled`.
    sh(`ip address add fd00:10:0:2::15/64 dev eth0 nodad
      ip address add 10.244.0.254/32 dev eth0; ip address add fd00:10:244::fe/128 dev eth0 nodad`)
    bench = bothFamilies({}, CIDRS)
    count = new ExecCount()
  })
  afterEach(async () => {
    await bench.close()
    assert.equal((await bench.run('cleanup')).code, 0)
    count.close()
  })

  /** Everything that a node does to it: changes of Services, foreign changes, another configuration, the end. */
  async function wholeLife(firewall: string, disturb: () => void): Promise<readonly string[]> {
    const configure = (virtualAddresses: VirtualAddresses): unknown =>
      bench.configure({ ...CIDRS, kubeIPVS: { firewall, virtualAddresses } })
    configure('addresses')
    bench.write('1.yaml', ...everyKind(1, ['a', 'c']))
    bench.write('2.yaml', ...everyKind(2, ['a'], LOCAL))
    const daemon = count.start(bench)
    await settled(2, undefined, 'addresses')
    await until('the firewall', () => bench.log.includes('"Using the firewall"'))
    bench.write('3.yaml', ...everyKind(3, ['b'], RANGES))
    await settled(3)
    bench.remove('1.yaml')
    await settled(2)
    disturb()
    sh('ipvsadm -C; ip link set kube-ipvs0 down; ip address flush dev kube-ipvs0')
    await settled(2, undefined, undefined, AUDITED_MS)
    configure('routes')
    await settled(2, undefined, 'routes')
    for (const path of ['/metrics', '/healthz', '/configz'])
      await (await fetch(`http://127.0.0.1:${path === '/healthz' ? 10_256 : 10_249}${path}`)).text()
    for (const command of ['status', 'diff']) assert.equal((await bench.command(command)).stderr, '')
    assert.equal(await bench.stop(daemon), ENDED_BY_SIGTERM)
    return count.paths()
  }

  for (const firewall of isBareGuest ? ['auto'] : rowsOfRun(['nftables'], () => false))
    it(`never calls execve after its own start with kubeIPVS.firewall: ${firewall}`, needs('nft'), async (t) => {
      const paths = await wholeLife(firewall, () => run([NFT, 'flush', 'ruleset']))
      t.diagnostic(paths.join(' '))
      assert.match(bench.log, /"Using the firewall" firewall="nftables"/)
      assert.deepEqual(paths, [process.execPath])
    })

  if (!isBareGuest)
    it('calls it with the iptables firewall, and each call is counted', needs('iptables-nft'), async (t) => {
      const paths = await wholeLife('iptables', () => sh('iptables -t nat -F; ip6tables -t nat -F'))
      t.diagnostic(`${paths.length} calls`)
      assert.equal(paths[0], process.execPath)
      assert.ok(
        paths.slice(1).some((path) => /iptables-(?:nft-)?restore$/.test(path)),
        paths.join(' '),
      )
    })

  it('is counted with the programs that it does not find, and those of its children', async () => {
    bench.program = `${import.meta.dirname}/../support/exec-example.cjs`
    const example = count.start(bench)
    await bench.ended(example)
    assert.deepEqual(await count.paths(), [process.execPath, '/nowhere/program', '/bin/sh', '/bin/true'])
  })
})
