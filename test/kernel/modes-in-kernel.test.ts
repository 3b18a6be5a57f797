/**
 * Which mode the kernel has something of, as every command without a daemon finds it: a virtual
 * server of another program is no mode, and after a switch of the mode connections of both modes
 * are counted.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { ADDRESSES, Cluster } from '../support/cluster.ts'
import type { Workbench } from '../support/daemon.ts'
import { rulesText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, settled } from '../support/every-kind.ts'
import type { Place } from '../support/net-namespace.ts'

const POD = ADDRESSES.b.IPv4
const PLACE: Place = frontend(1, 'ClusterIP', 'IPv4', 'tcp')
/** Of keepalived, say; its real server is quiescent. */
const FOREIGN = ['ipvsadm -A -t 192.0.2.99:1234 -s rr', 'ipvsadm -a -t 192.0.2.99:1234 -r 192.0.2.98:1 -m -w 0']

describe('a node that changes its mode', () => {
  let cluster: Cluster
  let bench: Workbench
  let daemon: ChildProcess
  before(async () => {
    cluster = Cluster.start()
    bench = bothFamilies({}, { mode: 'iptables', clusterCIDR: '10.244.0.0/16,fd00:10:244::/47' })
    bench.write('web.yaml', ...everyKind(1, ['b']))
    daemon = bench.start()
    await answers()
  })
  after(async () => {
    await bench.close()
    cluster.stop()
    sh('ipvsadm -C; ip link delete kube-ipvs0 2>/dev/null || true')
  })

  async function answers(): Promise<void> {
    for (const family of FAMILIES)
      await eventually(async () => {
        const place = frontend(1, 'ClusterIP', family, 'tcp')
        assert.match(await cluster.ask('client', place, { withinMs: 1000 }), /node$/)
      })
  }

  /** Waits for the daemon itself: the kernel has served since the daemon before. */
  const runs = (mode: string): Promise<void> =>
    eventually(async () =>
      assert.equal(
        await (await fetch('http://127.0.0.1:10249/proxyMode', { signal: AbortSignal.timeout(5000) })).text(),
        mode,
      ),
    )

  const held = () => cluster.hold('client', PLACE)

  /** Active connections to the pod, and the exit code of the wait. */
  async function counted(): Promise<readonly unknown[]> {
    const { code, stdout, stderr } = await bench.command('drain', '--wait', POD, '--timeout', '0s', '--output', 'json')
    const { active } = JSON.parse(stdout || '{}') as { readonly active?: number } // what our own program prints
    return [code, active ?? stderr]
  }

  async function answerOf(command: string, ...flags: readonly string[]): Promise<Record<string, unknown>> {
    const { code, stdout, stderr } = await bench.command(command, '--output', 'json', ...flags)
    assert.equal(code, 0, stderr)
    return JSON.parse(stdout) as Record<string, unknown> // what our own program prints
  }

  it('is in iptables mode for every command although another program has a virtual server', async () => {
    for (const command of FOREIGN) sh(command)
    const connection = await held()
    assert.deepEqual(await counted(), [3, 1], 'by the daemon')
    await bench.stop(daemon)
    assert.deepEqual(await counted(), [3, 1], 'without a daemon')
    const { mode, modes } = await answerOf('status')
    assert.deepEqual([mode, modes], ['iptables', ['iptables']])
    assert.equal((await answerOf('top', '--interval', '100ms'))['mode'], 'iptables')
    const { stdout } = await bench.run('explain', `${PLACE.address}:80`, '--output', 'json', '--socket', bench.socket)
    assert.equal((JSON.parse(stdout) as Record<string, unknown>)['mode'], 'iptables') // what our own program prints
    const drains = await bench.command('drain')
    assert.match(drains.stderr, /nothing drains in iptables mode[^;]*$/m)
    assert.equal(drains.stdout, 'nothing is draining on this node\n')
    connection.end()
    await eventually(async () => assert.deepEqual(await counted(), [0, 0]))
    sh('ipvsadm -C')
  })

  it('counts what rules of iptables mode translated after it has changed to ipvs mode', async () => {
    daemon = bench.start()
    await runs('iptables')
    const connection = await held()
    bench.configure({ mode: 'ipvs' })
    await settled(1, 1)
    await eventually(() => assert.doesNotMatch(rulesText('iptables-save'), /KUBE-SVC-/))
    assert.deepEqual(await counted(), [3, 1], 'by the daemon')
    await bench.stop(daemon)
    assert.deepEqual(await counted(), [3, 1], 'without a daemon')
    const ofIpvs = await held()
    assert.deepEqual(await counted(), [3, 1], 'flows are listed when IPVS has no connection')
    connection.end()
    ofIpvs.end()
    await eventually(async () => assert.deepEqual(await counted(), [0, 0]))
  })

  it('counts and shows what IPVS keeps after it has changed to iptables mode', async () => {
    daemon = bench.start()
    await runs('ipvs')
    const connection = await held()
    bench.configure({ mode: 'iptables' })
    const weightless = new RegExp(`-t ${PLACE.address}:80 -r ${POD}:8080 -m -w 0`)
    await eventually(() => assert.match(virtualServers().join('\n'), weightless))
    const second = await held()
    assert.deepEqual(await counted(), [3, 2], 'by the daemon')
    const drains = await bench.command('drain')
    assert.match(drains.stderr, /nothing drains in iptables mode.*; what drains was left by ipvs mode$/m)
    assert.match(drains.stdout, /^10\.244\.0\.2:8080 +1 .* 10\.96\.0\.1:80\/tcp/m)
    await bench.stop(daemon)
    assert.deepEqual(await counted(), [3, 2], 'without a daemon')
    const { mode, modes } = await answerOf('status')
    assert.deepEqual([mode, modes], [null, ['ipvs', 'iptables']])
    assert.equal((await answerOf('top', '--interval', '100ms'))['mode'], 'iptables', 'which gets new connections')
    second.end()
    await eventually(async () => assert.deepEqual(await counted(), [3, 1]))
    connection.end()
    await eventually(async () => assert.deepEqual(await counted(), [0, 0]))
  })
})
