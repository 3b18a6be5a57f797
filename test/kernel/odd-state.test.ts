/** Kernel states that Services never make, but administrators, other programs and refusals do. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { openRtnetlink } from '../../native/open.ts'
import { auditAddresses } from '../../src/ipvs/address-audit.ts'
import type { Binding } from '../../src/ipvs/address-diff.ts'
import { AddressTable } from '../../src/ipvs/addresses.ts'
import { DeviceTable } from '../../src/ipvs/device.ts'
import { encodeAddAddress, encodeDeleteAddress } from '../../src/netlink/address-codec.ts'
import { MessageBatch } from '../../src/netlink/batch.ts'
import { AuditShare } from '../../src/sync/audit.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { addRawDestination, addRawService, hasRawService } from '../support/raw-ipvs.ts'

const WEB = service('web', { clusterIP: '10.96.0.1' })
const signal = new AbortController().signal
const TCP = 6
const ESP = 50

let bench: Workbench
beforeEach(() => {
  freshNode()
  bench = new Workbench()
})
afterEach(() => bench.close())

/** Real servers of the Service `web` as ipvsadm names them, with their weights. */
const realServers = (): string[] =>
  virtualServers().flatMap((line) => {
    const [, address, weight] = /^-a -t 10\.96\.0\.1:80 -r (\S+):8080 -m -w (\d+)$/.exec(line) ?? []
    return address === undefined ? [] : [`${address} ${weight}`]
  })

/** The kernel refuses a broadcast address of one of its networks as a real server (EINVAL of ip_vs_new_dest). */
describe('an endpoint that the kernel refuses', () => {
  it('costs a new Service only that endpoint', async () => {
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.0.2.255']))
    bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1']))
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    await eventually(() => assert.match(bench.log, /failed.*EINVAL.*10\.0\.2\.255/))
  })

  it('keeps no removed endpoint in service when another one is usable, and drains end in the meantime', async () => {
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.244.0.2']))
    bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1', '10.244.0.2 1']))
    bench.write('web.yaml', WEB, slice('web', ['10.0.2.255']))
    await eventually(() => assert.match(bench.log, /failed.*EINVAL.*10\.0\.2\.255/))
    assert.deepEqual(realServers(), ['10.244.0.1 1', '10.244.0.2 1'], 'nothing else could serve')
    bench.write('web.yaml', WEB, slice('web', ['10.0.2.255', '10.244.0.3']))
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.3 1']))
  })
})

describe('IPVS services of other protocols', () => {
  const foreign = { address: '10.9.0.1', port: 1, protocol: ESP }

  it('are not changed by the daemon, its audits, status, diff and cleanup', async () => {
    await addRawService(foreign)
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1']))
    const preview = await bench.command('diff')
    assert.equal(preview.code, 1, preview.stderr)
    assert.ok(!preview.stdout.includes('10.9.0.1'))
    const daemon = bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1']))
    await eventually(() => assert.match(bench.log, /Ignoring IPVS services of protocols other than.*services=1/))
    sh('ipvsadm -d -t 10.96.0.1:80 -r 10.244.0.1:8080')
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1']), 15_000)
    assert.doesNotMatch(bench.log, /An audit failed|Cannot read a table/)
    assert.equal(bench.log.split('Ignoring IPVS services').length, 2, 'it is said once')
    const status = await bench.command('status', '--output', 'json')
    assert.deepEqual([status.code, JSON.parse(status.stdout).ipvs.unknownVirtualServers], [0, 1])
    await bench.stop(daemon)
    assert.equal((await bench.command('cleanup')).code, 0)
    assert.deepEqual([await hasRawService(foreign), realServers()], [true, []])
  })

  it('do not hide a real server with an unknown forwarding method', async () => {
    const web = { address: '10.96.0.1', port: 80, protocol: TCP }
    await addRawService(web)
    for (const [index, forwarding] of [5, 6, 7].entries())
      await addRawDestination(web, `10.244.0.${index + 1}`, 8080, forwarding)
    bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.244.0.4']))
    bench.start()
    await eventually(() => assert.deepEqual(realServers(), ['10.244.0.1 1', '10.244.0.4 1']))
    await eventually(() => assert.equal(virtualServers().length, 3, 'the others have drained'))
  })
})

/**
 * Deletes a host address of kube-ipvs0 and adds it in another way, in one datagram. The daemon may
 * still add its own between the two messages (EEXIST); then it is done once more.
 */
async function rebind(address: string, to: Binding): Promise<void> {
  const rtnetlink = openRtnetlink()
  try {
    const interfaceIndex = (await rtnetlink.getLink('kube-ipvs0'))?.index ?? 0
    await eventually(async () => {
      const batch = new MessageBatch(256)
      encodeDeleteAddress(batch, { address, prefixLength: address.includes(':') ? 128 : 32, interfaceIndex })
      encodeAddAddress(batch, { address, ...to, interfaceIndex })
      assert.deepEqual(await rtnetlink.transact(batch), [undefined, undefined])
    })
  } finally {
    rtnetlink.close()
  }
}

describe('addresses of kube-ipvs0 that are not host addresses', () => {
  const services = ['10.96.0.1', '10.96.0.2', '10.96.0.3', 'fd00:10:96::1', 'fd00:10:96::2']
  const right = services.map((address) => `${address}/${address.includes(':') ? 128 : 32}`).toSorted()
  const writeServices = (): void =>
    services.forEach((clusterIP, index) => {
      const ipFamilies = [clusterIP.includes(':') ? 'IPv6' : 'IPv4']
      bench.write(`s${index}.yaml`, service(`s${index}`, { clusterIP, ipFamilies }))
    })

  for (const promotes of [0, 1])
    it(`are replaced at a start, those of one subnet too (promote_secondaries ${promotes})`, async () => {
      // Without promote_secondaries the kernel deletes all addresses of a subnet with the first of them.
      sh(`sysctl -qw net.ipv4.conf.all.promote_secondaries=${promotes}; ip link add kube-ipvs0 type dummy
      for address in 10.96.0.1/24 10.96.0.2/24 10.96.0.9/24 fd00:10:96::1/64 fd00:10:96::9/64 224.0.0.5/32 255.255.255.255/32
        do ip address add $address dev kube-ipvs0; done
      ip address add 10.96.0.10/32 label kube-ipvs0:x dev kube-ipvs0
      ip address add 10.96.0.3 peer 10.96.0.77/32 dev kube-ipvs0
      ip address add 10.96.0.8 peer 10.96.0.78/32 dev kube-ipvs0
      ip address add fd00:10:96::2 peer fd00:10:96::77/128 dev kube-ipvs0`)
      writeServices()
      const preview = (await bench.command('diff')).stdout.split('\n').filter((line) => line.startsWith('ip address'))
      assert.ok(preview.includes('ip address add 10.96.0.1/32 dev kube-ipvs0'), preview.join('\n'))
      assert.ok(preview.includes('ip address delete 10.96.0.8 peer 10.96.0.78/32 dev kube-ipvs0'), preview.join('\n'))
      assert.equal((await bench.command('', '--once')).code, 0)
      assert.deepEqual(boundAddresses(), right)
      assert.equal((await bench.command('diff')).code, 0)
    })

  it('are replaced as soon as another program adds them', async () => {
    writeServices()
    bench.start()
    await eventually(() => assert.deepEqual(boundAddresses(), right))
    const changes: readonly (() => unknown)[] = [
      () => rebind('10.96.0.1', { prefixLength: 24 }),
      () => sh('ip address add 10.96.0.2/16 dev kube-ipvs0'),
      () => sh('ip address add 10.96.0.3 peer 10.5.5.5/32 dev kube-ipvs0'),
      () => rebind('fd00:10:96::1', { prefixLength: 64 }),
      () => rebind('fd00:10:96::2', { prefixLength: 128, peer: 'fd00::5' }),
    ]
    const repairs = (): number => bench.log.split('Repaired a change that another program made').length - 1
    for (const [index, change] of changes.entries()) {
      const before = repairs()
      await change()
      await eventually(() => assert.ok(repairs() > before, `change ${index}`))
      await eventually(() => assert.deepEqual(boundAddresses(), right, `change ${index}`))
    }
    assert.doesNotMatch(bench.log, /"Removing addresses"/)
  })

  it('are added again when a lifetime that they were given ends', async () => {
    writeServices()
    bench.start()
    await eventually(() => assert.deepEqual(boundAddresses(), right))
    for (const address of ['10.96.0.1/32', 'fd00:10:96::1/128'])
      sh(`ip address change ${address} dev kube-ipvs0 valid_lft 1 preferred_lft 1`)
    for (const address of ['10.96.0.1/32', 'fd00:10:96::1/128'])
      await eventually(() => assert.ok(bench.log.includes(`ip address add ${address} dev kube-ipvs0`), address), 15_000)
    await eventually(() => assert.deepEqual(boundAddresses(), right))
    assert.ok(!sh('ip address show dev kube-ipvs0').includes('sec'), 'no address has a lifetime')
  })
})

describe('the device kube-ipvs0', () => {
  it('is made again with all of its addresses after it was renamed', async () => {
    bench.write('web.yaml', WEB, service('other', { clusterIP: '10.96.0.2' }))
    bench.start()
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32', '10.96.0.2/32']))
    sh('ip link set kube-ipvs0 name other0')
    try {
      await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32', '10.96.0.2/32']))
      bench.write('more.yaml', service('more', { clusterIP: '10.96.0.3' }))
      await eventually(() => assert.equal(boundAddresses().length, 3))
    } finally {
      sh('ip link delete other0')
    }
    await eventually(() => assert.equal(boundAddresses().length, 3))
  })

  it('is not a link that has its name as an alternative name: that link keeps its addresses', async () => {
    sh('ip link property add dev eth0 altname kube-ipvs0')
    try {
      bench.write('web.yaml', WEB)
      bench.start()
      await eventually(() => assert.match(bench.log, /failed and will be retried.*alternative name/))
      assert.match(sh('ip -o address show dev eth0'), /inet 10\.0\.2\.15\/24/)
      assert.doesNotMatch(sh('ip -o address show dev eth0'), /10\.96\.0\.1/)
      assert.equal((await bench.command('status')).code, 0)
    } finally {
      sh('ip link property del dev eth0 altname kube-ipvs0')
    }
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']), 15_000)
    assert.match(sh('ip -o address show dev eth0'), /inet 10\.0\.2\.15\/24/)
  })

  it('is made again after it was moved to another network namespace', async () => {
    bench.write('web.yaml', WEB)
    bench.start()
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    sh('ip netns add odd-state && ip link set kube-ipvs0 netns odd-state')
    try {
      await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
    } finally {
      sh('ip netns delete odd-state')
    }
    await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
  })
})

describe('auditAddresses', () => {
  it('finds changes of a real device that were not announced', async () => {
    sh(`ip link add kube-ipvs0 type dummy
      for address in 10.96.0.1/32 10.96.0.2/32 10.96.0.3/32 fd00::1/128; do ip address add $address dev kube-ipvs0; done`)
    const rtnetlink = openRtnetlink()
    const [device, addresses] = [new TableSync(new DeviceTable(rtnetlink)), new TableSync(new AddressTable(rtnetlink))]
    const doubts: string[] = []
    const audit = () =>
      auditAddresses({
        rtnetlink,
        device,
        addresses: {
          live: (address) => addresses.live(address),
          liveKeys: () => addresses.liveKeys(),
          doubt: (keys) => void doubts.push(...keys),
        },
        share: new AuditShare({ share: 1, now: () => 0, sleep: async () => undefined }),
        onDoubt: () => undefined,
        signal,
      })
    try {
      for (const sync of [device, addresses]) await sync.read(signal)
      await audit()
      assert.deepEqual(doubts, [])
      sh(`ip address delete 10.96.0.1/32 dev kube-ipvs0; ip address add 10.96.0.2/24 dev kube-ipvs0
        ip address add 10.96.0.4/32 dev kube-ipvs0; ip address delete fd00::1/128 dev kube-ipvs0`)
      await audit()
      assert.deepEqual(doubts.toSorted(), ['10.96.0.1', '10.96.0.2', '10.96.0.4', 'fd00::1'])
    } finally {
      rtnetlink.close()
    }
  })
})
