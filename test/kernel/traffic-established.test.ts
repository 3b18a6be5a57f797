/**
 * Established connections of a Service that does not change, at every kind of frontend and in both
 * families, exchange data all the time: no change of other Services or of the daemon ends one or
 * makes it fall silent. There are many virtual servers, so that a SIGKILL in the middle of a pass
 * leaves some of them unwritten.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { firewallOfRun } from '../../dev/testing/firewalls.ts'
import { NFT } from '../support/bare-guest.ts'
import { ADDRESSES, Cluster } from '../support/cluster.ts'
import type { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, localRoutes, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually, until } from '../support/deadline.ts'
import { bothFamilies, everyKind, FAMILIES, frontend, KINDS, settled } from '../support/every-kind.ts'
import { LiveConnections } from '../support/live-connections.ts'

const FROM = ['client', 'b', 'node'] as const
/** Connections from each to each frontend: two endpoints take turns. */
const EACH = 2
const OTHERS = 1000
/** How often a kill in the middle of a pass is tried. */
const ATTEMPTS = 5
/** The other Services in the output of the kernel: 10.100.x.y:80. */
const OTHER = /^TCP {2}0A64/gm

describe('established connections', () => {
  let cluster: Cluster
  let bench: Workbench
  let daemon: ChildProcess
  const live = new LiveConnections()
  before(async () => {
    cluster = Cluster.start()
    bench = bothFamilies()
    bench.write('web.yaml', ...everyKind(1, ['a', 'c']))
    daemon = bench.start()
    await settled(1, 2)
    for (const kind of KINDS)
      for (const family of FAMILIES)
        for (const from of FROM)
          for (let index = 0; index < EACH; index++) await live.open(cluster, from, frontend(1, kind, family, 'tcp'))
    assert.equal(live.count, 48)
  })
  after(async () => {
    live.close()
    await bench.close()
    cluster.stop()
  })

  /** Waits for a pass of the running daemon: an object that is written is in the kernel, or is removed. */
  async function passIsDone(): Promise<void> {
    const line = '-A -t 10.96.9.9:80 -s rr'
    bench.write('marker.yaml', service('marker', { clusterIP: '10.96.9.9' }))
    await eventually(() => assert.ok(virtualServers().includes(line)))
    bench.remove('marker.yaml')
    await eventually(() => assert.ok(!virtualServers().includes(line)))
  }

  it('survive another Service with the same endpoints, its changes and its removal', async () => {
    const { address } = frontend(2, 'ClusterIP', 'IPv4', 'tcp')
    for (const pods of [['a', 'c'], ['c'], ['a', 'b', 'c'], []] as const) {
      bench.write('other.yaml', ...everyKind(2, pods))
      await settled(2)
      // Its frontends are there from the first change on.
      await eventually(() =>
        assert.deepEqual(
          weighted(address),
          pods.map((pod) => ADDRESSES[pod].IPv4),
        ),
      )
      await live.check()
    }
    bench.remove('other.yaml')
    await settled(1)
    await live.check()
  })

  it('survive a stop and a start', async () => {
    assert.equal(await bench.stop(daemon), 143)
    await live.check()
    daemon = bench.start()
    await passIsDone()
    await live.check()
  })

  it('survive a second daemon that runs together with the first, and the end of either', async () => {
    const starts = (): number => bench.log.split('"Caches are synced"').length
    const before = starts()
    const second = bench.start()
    await until('the objects of the second daemon', () => starts() > before)
    for (let passes = 0; passes < 3; passes++) await passIsDone()
    await live.check()
    await bench.stop(daemon)
    await passIsDone()
    await live.check()
    daemon = second
  })

  it('survive starts with other settings', async () => {
    await bench.stop(daemon)
    const other = bothFamilies({ scheduler: 'lc' }, { iptables: { masqueradeAll: true } })
    other.write('web.yaml', ...everyKind(1, ['a', 'c']))
    const changed = other.start()
    await eventually(() => assert.ok(virtualServers().includes('-A -t 10.96.0.1:80 -s lc')))
    await live.check()
    await other.stop(changed)
    await other.close()
    daemon = bench.start()
    await eventually(() => assert.ok(virtualServers().includes('-A -t 10.96.0.1:80 -s rr')))
    await live.check()
  })

  it('survive a change of virtual IPs from addresses to routes and back', async () => {
    const virtualIps = FAMILIES.length * (KINDS.length - 1)
    for (const virtualAddresses of ['routes', 'addresses'] as const) {
      bench.configure({ kubeIPVS: { virtualAddresses } })
      const counts = virtualAddresses === 'routes' ? [0, virtualIps] : [virtualIps, 0]
      await eventually(() => assert.deepEqual([boundAddresses().length, localRoutes().length], counts))
      await live.check()
    }
  })

  it('survive a SIGKILL while rules are written', async () => {
    const loadBalancerSourceRanges = ['10.0.2.100/32', 'fd00:10:0:2::100/128']
    const { address } = frontend(3, 'LoadBalancer', 'IPv4', 'tcp')
    // The elements are written in a moment, which a program that lists them would miss.
    const monitor = firewallOfRun() === undefined ? undefined : await watchFirewall()
    const isWriting = (): boolean =>
      monitor === undefined ? programs().some((name) => /^ip6?tables/.test(name)) : monitor.take().includes(address)
    /** Whether a process of iptables, or the first of the elements, was seen before the virtual servers existed. */
    const catchWriting = async (): Promise<boolean> => {
      bench.write('ranges.yaml', ...everyKind(3, ['a'], { loadBalancerSourceRanges }))
      let seen = false
      await until('rules of source ranges', () => (seen ||= isWriting()) || hasRanges(), undefined, 1)
      return seen
    }
    // A process may begin and end between two readings; then the next one counts.
    let isCaught = await catchWriting()
    for (let attempt = 1; attempt < ATTEMPTS && !isCaught; attempt++) {
      bench.remove('ranges.yaml')
      await settled(1)
      monitor?.take()
      isCaught = await catchWriting()
    }
    monitor?.stop()
    assert.ok(isCaught, 'the firewall was never seen at work')
    await bench.stop(daemon, 'SIGKILL')
    await live.check()
    daemon = bench.start()
    await settled(2)
    await live.check()
    bench.remove('ranges.yaml')
    await settled(1)
  })

  it('survive a SIGKILL in the middle of a pass', async () => {
    const virtual = (): number => readFileSync('/proc/net/ip_vs', 'latin1').match(OTHER)?.length ?? 0
    const bound = (): number => boundAddresses().filter((address) => address.startsWith('10.100.')).length
    /** How many virtual servers and addresses of other Services a kill leaves. */
    const kill = async (): Promise<number> => {
      await bench.stop(daemon, 'SIGKILL')
      const left = virtual() + bound()
      await live.check()
      daemon = bench.start()
      return left
    }
    const killWhileRemoving = async (): Promise<number> => {
      const monitor = spawn('ip', ['monitor', 'address'], { stdio: ['ignore', 'pipe', 'inherit'] })
      let announced = ''
      monitor.stdout.on('data', (chunk) => {
        announced += chunk
      })
      try {
        await until('the first announcement', () => {
          sh('ip address replace 192.0.2.200/32 dev lo; ip address delete 192.0.2.200/32 dev lo')
          return announced !== ''
        })
        bench.remove('others.yaml')
        await until('the first removal', () => / 10\.100\./.test(announced), undefined, 1)
        return await kill()
      } finally {
        monitor.kill()
      }
    }
    const isPart = (count: number): boolean => count > 0 && count < 2 * OTHERS
    const manifests = Array.from({ length: OTHERS }, (_, index) => {
      const clusterIP = `10.100.${index >> 8}.${index & 255}`
      return [service(`other-${index}`, { clusterIP }), slice(`other-${index}`, ['10.244.0.1', '10.244.0.2'])]
    })
    bench.write('others.yaml', ...manifests.flat())
    const left: number[] = []
    for (const limit of [1, OTHERS / 2]) {
      await eventually(() => assert.ok(virtual() >= limit), 30_000, 1)
      left.push(await kill())
    }
    assert.ok(
      left.some((count) => count < 2 * OTHERS),
      `left on the way in: ${left.join(', ')}`,
    )
    const leftOver: number[] = []
    // A whole pass may fit between two readings of this process: then the kill is too late, and is repeated.
    for (let attempt = 0; attempt < ATTEMPTS && !leftOver.some(isPart); attempt++) {
      bench.write('others.yaml', ...manifests.flat())
      await eventually(() => assert.equal(bound(), OTHERS), 30_000)
      leftOver.push(await killWhileRemoving())
    }
    assert.ok(leftOver.some(isPart), `left on the way out: ${leftOver.join(', ')}`)
    await eventually(() => assert.equal(virtual(), 0), 30_000)
    await settled(1, 2)
    await live.check()
  })
})

/** What the kernel announces of nf_tables, since the look before; it is listening when this resolves. */
async function watchFirewall(): Promise<{ take(): string; stop(): void }> {
  const monitor = spawn(NFT, ['monitor'], { stdio: ['ignore', 'pipe', 'inherit'] })
  let announced = ''
  monitor.stdout.on('data', (chunk) => {
    announced += chunk
  })
  const take = (): string => {
    const taken = announced
    announced = ''
    return taken
  }
  await until('the first announcement', () => {
    sh(`${NFT} add table ip announced; ${NFT} delete table ip announced`)
    return take() !== ''
  })
  return { take, stop: () => void monitor.kill() }
}

/** Whether the virtual servers of the Service with source ranges are there: they wait for their rules. */
const hasRanges = (): boolean => {
  const { address } = frontend(3, 'LoadBalancer', 'IPv4', 'tcp')
  return virtualServers().some((line) => line.startsWith(`-A -t ${address}:`))
}

/** Endpoints that get new connections of an IPv4 frontend at port 80, sorted. */
const weighted = (vip: string): string[] =>
  virtualServers()
    .flatMap((line) => new RegExp(`^-a -t ${vip}:80 -r ([\\d.]+):\\d+ -m -w [1-9]`).exec(line)?.[1] ?? [])
    .sort()

/** Names of the processes of this namespace. */
const programs = (): string[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      try {
        return readFileSync(`/proc/${name}/comm`, 'latin1').trim()
      } catch {
        return '' // it has ended meanwhile
      }
    })
