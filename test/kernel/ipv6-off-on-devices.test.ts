/**
 * A node whose new devices have IPv6 switched off (net.ipv6.conf.default.disable_ipv6=1), while
 * IPv6 itself is on: the daemon switches it on for kube-ipvs0 alone, or says what keeps it from
 * that; the init container does it where /proc/sys is read-only.
 */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { parse } from 'yaml'
import type { Diagnosis } from '../../src/doctor/diagnose.ts'
import { type Capability, type Container } from '../support/container-runtime.ts'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { boundAddresses, freshNode, links, localRoutes, virtualServers } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'
import { sh } from '../support/programs.ts'

const VALUES = new URL('../../helm/values.yaml', import.meta.url)
const GIVEN = (parse(readFileSync(VALUES, 'utf8')) as { readonly capabilities: readonly Capability[] }).capabilities
const SOCKETS = '/run/kube-ipvs-test'
const LOCK = '/run/kube-ipvs-test-xtables.lock'
const INIT: Container = { privileged: true, capabilities: [] }
/** The container of the chart, where /proc/sys is read-only. */
const MAIN: Container = {
  capabilities: GIVEN,
  hasSeccompProfile: process.arch === 'x64',
  mounts: [
    { source: LOCK, target: '/run/xtables.lock', readOnly: false },
    { source: SOCKETS, target: SOCKETS, readOnly: false },
  ],
}
const NAME = 'net.ipv6.conf.kube-ipvs0.disable_ipv6'
const FILE = '/proc/sys/net/ipv6/conf/kube-ipvs0/disable_ipv6'
const VIP = 'fd00:10:96::1'

let bench: Workbench
beforeEach(() => {
  freshNode()
  for (const path of ['all', 'default', 'lo']) writeFileSync(`/proc/sys/net/ipv6/conf/${path}/disable_ipv6`, '0')
  sh('ip address add fd00:10::15/64 dev eth0 nodad')
  writeFileSync('/proc/sys/net/ipv6/conf/default/disable_ipv6', '1')
  bench = new Workbench({}, { conntrack: { maxPerCore: 0 } })
  mkdirSync(SOCKETS, { recursive: true, mode: 0o755 })
  writeFileSync(LOCK, '')
  bench.socket = `${SOCKETS}/kube-ipvs.sock`
  const both = { clusterIP: '10.96.0.1', clusterIPs: ['10.96.0.1', VIP], ipFamilies: ['IPv4', 'IPv6'] }
  const six = slice('web', ['fd00:244::1'], { addressType: 'IPv6' })
  bench.write('web.yaml', service('web', both), slice('web', ['10.244.0.1']), six)
})
afterEach(async () => bench.close())

const isDisabled = (): boolean => readFileSync(FILE, 'utf8').trim() === '1'
const times = (text: string): number => bench.log.split(text).length - 1

async function servesIpv6(): Promise<void> {
  await eventually(() => assert.ok(boundAddresses().includes(`${VIP}/128`), boundAddresses().join() + bench.log))
}

async function status(): Promise<string> {
  return (await bench.run('status', '--socket', bench.socket, '--problems')).stdout
}

/** What doctor finds about it, as `error: text`. */
async function doctor(): Promise<readonly string[]> {
  const { stdout, stderr } = await bench.command('doctor', '--output', 'json', '--socket', bench.socket)
  assert.notEqual(stdout, '', stderr)
  const { checks } = JSON.parse(stdout) as Diagnosis // what our own program prints
  const check = checks.find(({ id }) => id === 'ipv6-of-devices')
  return (check?.findings ?? []).map(({ severity, what }) => `${severity}: ${what}`)
}

describe('where new devices have no IPv6', () => {
  it('the daemon switches it on for its own device, and for nothing else', async () => {
    bench.start()
    await servesIpv6()
    assert.equal(isDisabled(), false)
    assert.match(bench.log, /"Changed sysctl" name="net\/ipv6\/conf\/kube-ipvs0\/disable_ipv6" before=1 after=0/)
    assert.equal(sh('sysctl -n net.ipv6.conf.default.disable_ipv6 net.ipv6.conf.all.disable_ipv6'), '1\n0\n')
    assert.equal(times('An operation failed'), 0)
    assert.deepEqual(await doctor(), [])
  })

  it('the daemon does so again when another program makes its device new or switches IPv6 off there', async () => {
    bench.start()
    await servesIpv6()
    sh('ip link delete kube-ipvs0')
    await servesIpv6()
    writeFileSync(FILE, '1')
    await servesIpv6()
    assert.equal(isDisabled(), false)
  })

  it('the daemon leaves it off, and says so, when IPv6 is switched off for the whole node while it runs', async () => {
    bench.start()
    await servesIpv6()
    writeFileSync('/proc/sys/net/ipv6/conf/all/disable_ipv6', '1')
    await eventually(async () => assert.match(await status(), /net\.ipv6\.conf\.all\.disable_ipv6 is 1/))
    assert.equal(isDisabled(), true)
    assert.ok(boundAddresses().includes('10.96.0.1/32'))
    writeFileSync('/proc/sys/net/ipv6/conf/all/disable_ipv6', '0')
    await servesIpv6()
  })

  it('a node of IPv4 Services is left as it is', async () => {
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
    bench.start()
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    assert.equal(isDisabled(), true)
    assert.deepEqual(await doctor(), [`note: New devices have IPv6 switched off, and so has kube-ipvs0.`])
  })

  it('the log, status and doctor name what keeps a container from it, until that ends', async () => {
    writeFileSync('/proc/sys/net/ipv4/vs/conntrack', '1')
    bench.container = MAIN
    bench.start()
    await eventually(() => assert.ok(boundAddresses().includes('10.96.0.1/32')))
    const text = /net\.ipv6\.conf\.kube-ipvs0\.disable_ipv6 is 1.*read-only.*--init-only/
    await eventually(() => assert.match(bench.log, new RegExp(`"Problem with an object".*${text.source}`)))
    assert.ok(virtualServers().some((line) => line.includes(`[${VIP}]`)))
    bench.container = undefined
    await eventually(async () => assert.match(await status(), text))
    const [found, ...more] = await doctor()
    assert.match(found ?? '', /^error: net\.ipv6\.conf\.kube-ipvs0\.disable_ipv6 is 1/)
    assert.deepEqual(more, [])
    assert.ok(times('disable_ipv6 is 1') < 10, bench.log)

    sh(`sysctl -qw ${NAME}=0`)
    await servesIpv6()
    await eventually(() => assert.match(bench.log, /"Problems with an object resolved" object="kube-ipvs0"/))
    assert.doesNotMatch(await status(), text)
  })

  it('the init container makes the device with IPv6 for the container', async () => {
    bench.container = INIT
    const { code, stderr } = await bench.command('', '--init-only', '-v', '2')
    assert.equal(code, 0, stderr)
    assert.match(stderr, /"Changed sysctl" name="net\/ipv6\/conf\/kube-ipvs0\/disable_ipv6" before=1 after=0/)
    assert.equal(isDisabled(), false)
    assert.deepEqual(boundAddresses(), [])
    const again = await bench.command('', '--init-only', '-v', '2')
    assert.equal(again.code, 0, again.stderr)
    assert.doesNotMatch(again.stderr, /^[EW].*disable_ipv6/m)
    bench.container = MAIN
    bench.start()
    await servesIpv6()
    assert.equal(times('Problem with an object'), 0, bench.log)
  })

  it('the init container makes no device where devices have IPv6, and none in iptables mode', async () => {
    bench.container = INIT
    bench.configure({ mode: 'iptables' })
    const iptables = await bench.command('', '--init-only')
    assert.equal(iptables.code, 0, iptables.stderr)
    assert.doesNotMatch(links(), /kube-ipvs0/)
    bench.configure({})
    writeFileSync('/proc/sys/net/ipv6/conf/default/disable_ipv6', '0')
    const { code, stderr } = await bench.command('', '--init-only')
    assert.equal(code, 0, stderr)
    assert.doesNotMatch(links(), /kube-ipvs0/)
  })

  it('local routes need no device, and a loopback device without IPv6 is named and left alone', async () => {
    bench.configure({ kubeIPVS: { virtualAddresses: 'routes' } })
    bench.start()
    await eventually(() => assert.ok(localRoutes().includes(`${VIP}/128`), bench.log))
    assert.equal(isDisabled(), true)
    writeFileSync('/proc/sys/net/ipv6/conf/lo/disable_ipv6', '1')
    await eventually(async () => assert.match(await status(), /net\.ipv6\.conf\.lo\.disable_ipv6 is 1/))
    const [found, ...more] = await doctor()
    assert.match(found ?? '', /^error: net\.ipv6\.conf\.lo\.disable_ipv6 is 1/)
    assert.deepEqual(more, [])
    assert.equal(readFileSync('/proc/sys/net/ipv6/conf/lo/disable_ipv6', 'utf8').trim(), '1')
    writeFileSync('/proc/sys/net/ipv6/conf/lo/disable_ipv6', '0')
    await eventually(() => assert.ok(localRoutes().includes(`${VIP}/128`), bench.log))
  })
})
