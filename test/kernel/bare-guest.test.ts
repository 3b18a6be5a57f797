/**
 * What a guest loads of the firewall, and that a bare one has none of it, as a node with a stock
 * RHEL 10: neither ip_set nor xtables, and no program of iptables, ipset or nftables.
 * @also-bare
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'
import { after, before, describe, it } from 'node:test'
import { openNetfilter } from '../../native/open.ts'
import { LOAD_LIST } from '../../dev/kernel/modules.mjs'
import { openIpset } from '../../src/modes/open-ipset.ts'
import type { NetlinkConnection } from '../../src/netlink/connection.ts'
import { hasSubsystem } from '../../src/netlink/subsystems.ts'
import { missingForNft } from '../../src/nftables/support.ts'
import { findProgram, searchPath } from '../../src/node/programs.ts'
import { Workbench } from '../support/daemon.ts'
import { FAMILIES } from '../support/every-kind.ts'
import { freshNode } from '../support/kernel-state.ts'
import { deadline } from '../support/deadline.ts'
import { service, slice } from '../support/manifests.ts'
import { finish, run, sh } from '../support/programs.ts'
import { isBareGuest, NFT } from '../support/bare-guest.ts'
import { needs } from './needs.ts'

const soon = (): AbortSignal => AbortSignal.timeout(deadline(10_000))
const loaded = (): ReadonlySet<string> => new Set(readFileSync('/proc/modules', 'utf8').match(/^\S+/gm))
/** What it is to load when it boots. */
const list = (): readonly string[] => readFileSync(`/lib/modules/${release()}/${LOAD_LIST}`, 'utf8').trim().split('\n')

function usualGuest(): void {
  it('has loaded ip_set, xtables, nft_compat and nft_fib', () => {
    for (const name of ['ip_set', 'x_tables', 'ip_tables', 'ip6_tables', 'nft_compat', 'nft_fib', ...list()])
      assert.ok(loaded().has(name), name)
  })
  it('has IPVS built in, as modprobe knows', needs('program:modprobe'), () => {
    assert.match(run(['modprobe', '--show-depends', 'ip_vs']), /^builtin ip_vs$/m)
  })
  it('loads the module of a rare type of set when one is made', needs('program:modprobe'), () => {
    assert.ok(!list().includes('ip_set_hash_mac'))
    sh('ipset create late hash:mac && ipset destroy late')
    assert.ok(loaded().has('ip_set_hash_mac'))
  })
}

function bareGuest(): void {
  let netlink: NetlinkConnection
  before(() => {
    freshNode()
    netlink = openNetfilter()
  })
  after(() => netlink.close())

  for (const command of [
    'iptables -L',
    'ip6tables -L',
    'iptables-save',
    'iptables-restore',
    'iptables-nft -L',
    'iptables-legacy -L',
    'ipset list',
    'nft list ruleset',
  ])
    it(`does not find ${command}`, () => {
      const { code, stderr } = finish(['sh', '-c', command])
      assert.equal(code, 127, stderr)
      assert.match(stderr, /not found/)
      const [program = ''] = command.split(' ')
      assert.equal(findProgram(program, searchPath(process.env['PATH'])), undefined)
    })

  it('has no module loaded and can load none', () => {
    assert.deepEqual([...loaded()], [])
    assert.notEqual(finish(['modprobe', 'x_tables']).code, 0)
    for (const file of ['ip_tables_names', 'ip6_tables_names']) assert.ok(!existsSync(`/proc/net/${file}`), file)
  })
  it('has no ip_set', async () => {
    await assert.rejects(openIpset(soon()), /the kernel has no ipset: load the module "ip_set"/)
  })
  it('has nf_tables for both families, and no nft_compat', async () => {
    assert.ok(await hasSubsystem(netlink, 'nf_tables'))
    const reason = 'the kernel has no nft_compat'
    assert.deepEqual(await missingForNft(netlink, FAMILIES), { IPv4: reason, IPv6: reason })
  })
  it('has all that native rules of nf_tables need but fib, seen by an nft out of PATH', () => {
    const masquerade = [
      'type nat hook postrouting priority srcnat',
      'ct state established counter accept',
      'meta mark and 0x4000 == 0x4000 masquerade fully-random',
      'ip daddr vmap { 192.0.2.1 : drop }',
    ]
    run([NFT, '-f', '-'], `table ip t {\nchain c {\n${masquerade.join('\n')}\n}\n}\n`)
    run([NFT, '-f', '-'], 'table ip t {\nchain d {\nnumgen random mod 2 0 reject\n}\n}\n')
    assert.match(run([NFT, 'list', 'table', 'ip', 't']), /masquerade fully-random/)
    const fib = finish([NFT, 'add', 'rule', 'ip', 't', 'd', 'fib', 'daddr', 'type', 'local', 'accept'])
    assert.match(fib.stderr, /No such file or directory/)
    run([NFT, 'delete', 'table', 'ip', 't'])
  })
  it('makes the daemon end with what to install where it is to use iptables', async () => {
    const bench = new Workbench({}, { kubeIPVS: { firewall: 'iptables' } })
    try {
      bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
      assert.equal(await bench.ended(bench.start()), 1, bench.log)
      assert.match(bench.log, /err="no iptables-save and ip6tables-save .*: install the package iptables /)
    } finally {
      await bench.close()
    }
  })
}

if (isBareGuest) describe('a bare guest', bareGuest)
else describe('a guest of the kernel in this repository', needs('firewall-modules'), usualGuest)
