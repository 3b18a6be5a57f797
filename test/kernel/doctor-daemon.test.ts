/**
 * `kube-ipvs doctor` beside a daemon that runs: it begins with what the daemon says, takes the name
 * of the Node from it, and finds the rules of host firewalls that drop packets to Services, by
 * their predicted path.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Diagnosis } from '../../src/doctor/diagnose.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually, until } from '../support/deadline.ts'
import { freshNode, rulesText, virtualServers } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'
import { sh } from '../support/programs.ts'

const POD = '10.244.0.5'
const PODS = '10.244.0.0/16'
const WEB = service('web', {
  type: 'NodePort',
  clusterIP: '10.96.0.11',
  externalTrafficPolicy: 'Local',
  ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 30_080 }],
})

let bench: Workbench
beforeEach(() => {
  freshNode()
  sh(`
    sysctl -qw net.ipv4.ip_forward=1
    ip link add pod0 type veth peer name pod1; ip link set pod0 up; ip link set pod1 up
    ip route add ${POD}/32 dev pod0
    ip link add wan0 type veth peer name wan1; ip link set wan0 up; ip link set wan1 up
    ip address add 192.0.2.7/24 dev wan0; ip route add 198.51.100.0/24 via 192.0.2.1 dev wan0`)
  bench = new Workbench({}, { mode: 'ipvs', clusterCIDR: PODS, hostnameOverride: '' })
})
afterEach(async () => {
  await bench.close()
})

async function doctor(...flags: string[]): Promise<Diagnosis> {
  const { stdout, stderr } = await bench.run('doctor', '--output', 'json', '--socket', bench.socket, ...flags)
  assert.notEqual(stdout, '', stderr)
  return JSON.parse(stdout) as Diagnosis // what our own program prints
}

const check = ({ checks }: Diagnosis, id: string) => checks.find((one) => one.id === id)

async function serve(...flags: string[]): Promise<void> {
  bench.write('web.yaml', WEB, slice('web', [], { endpoints: [{ addresses: [POD], nodeName: 'here' }] }))
  bench.start(...flags)
  await eventually(() => assert.ok(virtualServers().some((line) => line.includes('192.0.2.7:30080 -r'))))
  await until('the local socket', () => existsSync(bench.socket))
}

describe('doctor beside a daemon', () => {
  it('takes the name of the Node from it, so that a start changes nothing', async () => {
    await serve('--hostname-override', 'here')
    await eventually(async () => {
      const diagnosis = await doctor('--config', bench.configurationFile, '--manifests', bench.directory)
      assert.equal(diagnosis.nodeName, 'here')
      assert.deepEqual(check(diagnosis, 'start-changes')?.findings, [])
      // Not every setting can be written in every namespace.
      const worse = check(diagnosis, 'daemon-health')?.findings.filter(({ severity }) => severity !== 'note')
      assert.deepEqual([worse, diagnosis.mode], [[], 'ipvs'])
    })
    const { code, stdout } = await bench.command('diff')
    assert.deepEqual([code, stdout], [0, ''])
    const other = await doctor('--config', bench.configurationFile, '--hostname-override', 'there')
    assert.equal(other.nodeName, 'there', 'a flag decides')
  })

  it('checks the node for the mode of the daemon where no configuration is named', async () => {
    bench.configure({ mode: 'iptables' })
    bench.write('web.yaml', WEB)
    bench.start('--hostname-override', 'here')
    await eventually(() => assert.match(rulesText('iptables-save'), /KUBE-EXTERNAL-SERVICES/))
    await eventually(async () => {
      const diagnosis = await doctor()
      assert.deepEqual([diagnosis.mode, check(diagnosis, 'running-mode')?.severity], ['iptables', 'ok'])
    })
  })

  it('finds the same as status: a problem of the node', async () => {
    sh('ip link add kube-ipvs0 type bridge')
    await serve('--hostname-override', 'here')
    await eventually(async () => {
      const { stdout } = await bench.command('status')
      // Nor is it as long as no daemon answers.
      assert.match(stdout, /^This node is not fine: .*kube-ipvs0/)
    })
    const health = check(await doctor(), 'daemon-health')
    assert.equal(health?.severity, 'error')
    assert.match(health.findings[0]?.what ?? '', /^The daemon says: .*kube-ipvs0/)
  })

  it('finds rules of a host firewall in INPUT that drop packets to Services', async () => {
    await serve('--hostname-override', 'here')
    const paths = async (): Promise<readonly string[]> => {
      const found = check(await doctor(), 'service-paths')
      assert.equal(found?.unseen, null)
      return found.findings.map(({ what }) => what.replace(/:[^:]* to .*/, ''))
    }
    await eventually(async () => assert.deepEqual(await paths(), []))
    // As ufw does it: accepts in chains of its own, and the policy at the end.
    sh(`
      iptables -N ufw-test 2>/dev/null || iptables -F ufw-test
      iptables -A ufw-test -i lo -j ACCEPT
      iptables -A ufw-test -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
      iptables -A ufw-test -p tcp --dport 22 -j ACCEPT
      iptables -A INPUT -j ufw-test
      iptables -P INPUT DROP`)
    assert.deepEqual(await paths(), [
      'Packets to Services of pods of this node and clients outside are dropped in INPUT (filter) by the policy of INPUT',
    ])
    sh(`iptables -A ufw-test -s ${PODS} -j ACCEPT`)
    assert.deepEqual(await paths(), [
      'Packets to Services of clients outside are dropped in INPUT (filter) by the policy of INPUT',
    ])
    sh('iptables -A ufw-test -p tcp --dport 30000:32767 -j ACCEPT')
    assert.deepEqual(await paths(), [])
    // As RHEL does it: the last rule rejects.
    sh(`
      iptables -P INPUT ACCEPT; iptables -F ufw-test
      iptables -A ufw-test -p tcp --dport 30000:32767 -j ACCEPT
      iptables -A INPUT -j REJECT --reject-with icmp-host-prohibited`)
    const [found] = check(await doctor(), 'service-paths')?.findings ?? []
    assert.match(
      found?.what ?? '',
      /of pods of this node .*are rejected in INPUT \(filter\) by "-A INPUT -j REJECT --reject-with icmp-host-prohibited"/,
    )
    assert.ok(found?.remedy.includes(`iptables -I INPUT -s ${PODS} -j ACCEPT`))
    // The remedy works.
    sh((found?.remedy ?? []).filter((line) => line.startsWith('iptables ')).join('\n'))
    const rest = check(await doctor(), 'service-paths')?.findings ?? []
    assert.ok(
      rest.every(({ what }) => !what.includes('pods of this node')),
      JSON.stringify(rest),
    )
  })
})
