/**
 * The start check on a real kernel: it finds what exists, misses what does not, and makes nothing
 * by asking. The programs (ipvsadm, ipset, iptables) are the judges of what exists.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { afterEach, describe, it } from 'node:test'
import { openNetfilter, openNetlinkConnection, openNetlinkGroups } from '../../native/open.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'
import { NFNLGRP_NFTABLES } from '../../src/nftables/events.ts'
import { tryNftFamily } from '../../src/nftables/support.ts'
import { IpvsConnection } from '../../src/ipvs/connection.ts'
import { askScheduler } from '../../src/ipvs/scheduler.ts'
import { KernelQuestions } from '../../src/modes/ipvs/kernel-questions.ts'
import { checkNode } from '../../src/modes/ipvs/node-preparation.ts'
import { NETLINK_GENERIC, NETLINK_NETFILTER } from '../../src/netlink/constants.ts'
import { hasSubsystem } from '../../src/netlink/subsystems.ts'
import { needsOf, type Question } from '../../src/node/needs.ts'
import { IP_FAMILIES } from '../../src/values/protocol.ts'
import { ipvsadm } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { deadline } from '../support/deadline.ts'
import { isMet, needs } from './needs.ts'

/** Aborts a request to the kernel that takes long. */
const soon = (): AbortSignal => AbortSignal.timeout(deadline(120_000))
/** A choice for which nothing is known to work. */
const NOT_ASKED = { IPv4: 'not asked', IPv6: 'not asked' }

function configuration(scheduler = ''): KubeProxyConfiguration {
  const configuration = defaultConfiguration()
  return { ...configuration, ipvs: { ...configuration.ipvs, scheduler } }
}

/** Everything that the check could leave behind, except modules. */
function traces(): string {
  const names = ['ip_tables_names', 'ip6_tables_names'].map((file) => `/proc/net/${file}`)
  const tables = names.map((file) => (existsSync(file) ? readFileSync(file, 'utf8') : ''))
  const nft = isMet('nft') ? sh('nft list ruleset') : ''
  return [sh('ipvsadm -S -n; ipset save; ip -o link; ip -o address'), nft, ...tables].join('---\n')
}

function succeeds(command: string): boolean {
  return sh(`${command} >/dev/null 2>&1 && echo yes || true`).includes('yes')
}

const question = (kind: Question['kind'], name: string, family: Question['family'] = undefined): Question => ({
  kind,
  name,
  family,
})

for (const [mode, need] of [
  ['nft', 'iptables-nft'],
  ['legacy', 'legacy-iptables'],
] as const) {
  describe(`the start check with iptables ${mode}`, needs(need), () => {
    it('finds nothing missing in a kernel that has everything, and leaves nothing behind', async () => {
      // The legacy programs load ip_tables themselves; the check does not.
      if (mode === 'legacy') sh('iptables-legacy -t nat -L; ip6tables-legacy -t nat -L')
      const before = traces()
      const { findings, missingMatches } = await checkNode({
        configuration: configuration(),
        iptables: { mode, unusable: NOT_ASKED },
        signal: soon(),
      })
      assert.deepEqual(findings, [])
      assert.equal(missingMatches.size, 0)
      assert.equal(traces(), before)
    })

    it('agrees with iptables about matches and targets', async () => {
      const questions = new KernelQuestions(mode, [], soon())
      sh('ipset create probe hash:ip')
      const options: Readonly<Record<string, string>> = {
        'match comment': '-m comment --comment x -j ACCEPT',
        'match set': '-m set --match-set probe dst -j ACCEPT',
        'match mark': '-m mark --mark 1 -j ACCEPT',
        'match addrtype': '-m addrtype --dst-type LOCAL -j ACCEPT',
        'match conntrack': '-m conntrack --ctstate NEW -j ACCEPT',
        'match physdev': '-m physdev --physdev-is-in -j ACCEPT',
        'match ipvs': '-m ipvs --vproto 6 -j ACCEPT',
        'target MARK': '-j MARK --set-mark 1',
        'target MASQUERADE': '-j MASQUERADE',
        'target REJECT': '-j REJECT',
      }
      try {
        sh(`iptables-${mode} -t nat -N PROBE; iptables-${mode} -N PROBE`)
        const asked = needsOf({ families: ['IPv4'], scheduler: 'rr', iptables: mode }).flat()
        for (const { kind, name } of asked) {
          if (kind !== 'match' && kind !== 'target') continue
          const option = options[`${kind} ${name}`]
          assert.ok(option, `${kind} ${name}`)
          const works = succeeds(`iptables-${mode} -t ${name === 'REJECT' ? 'filter' : 'nat'} -A PROBE ${option}`)
          assert.equal(await questions.ask(question(kind, name, 'IPv4')), works, name)
        }
      } finally {
        questions.close()
        sh(`for t in nat filter; do iptables-${mode} -t $t -F PROBE; iptables-${mode} -t $t -X PROBE; done`)
        sh('ipset destroy probe')
      }
    })

    it('reports what no kernel has', async () => {
      const questions = new KernelQuestions(mode, [], soon())
      for (const family of IP_FAMILIES)
        for (const kind of ['match', 'target'] as const)
          assert.equal(await questions.ask(question(kind, 'nosuch', family)), false)
      questions.close()
    })
  })
}

describe('the start check', () => {
  afterEach(() => {
    sh('ipvsadm -C')
  })

  it('names the module of a missing scheduler', async () => {
    const before = traces()
    const { findings } = await checkNode({
      configuration: configuration('nosuch'),
      iptables: { mode: 'nft', unusable: NOT_ASKED },
      signal: soon(),
    })
    const [first] = findings
    assert.deepEqual([first?.what, first?.module, first?.severity], ['scheduler nosuch', 'ip_vs_nosuch', 'fatal'])
    assert.equal(traces(), before)
  })

  it('agrees with ipset about types of sets', async () => {
    const questions = new KernelQuestions('nft', [], soon())
    assert.equal(await questions.ask(question('ipset', '')), true)
    for (const type of ['hash:ip', 'hash:ip,port', 'hash:ip,port,ip', 'hash:ip,port,net'])
      for (const family of IP_FAMILIES) {
        const option = family === 'IPv4' ? 'inet' : 'inet6'
        const works = succeeds(`ipset create probe ${type} family ${option} && ipset destroy probe`)
        assert.equal(await questions.ask(question('set type', type, family)), works, type)
      }
    assert.equal(await questions.ask(question('set type', 'bitmap:port')), isMet('ipset:bitmap:port range 0-65535'))
    questions.close()
  })
})

describe('tryNftFamily', () => {
  it('agrees with iptables-nft, creates nothing and announces nothing', async () => {
    const netlink = openNetfilter()
    const announcements = openNetlinkGroups(NETLINK_NETFILTER, [NFNLGRP_NFTABLES])
    try {
      assert.equal(await hasSubsystem(netlink, 'nf_tables', { signal: soon() }), true)
      const before = traces()
      for (const family of IP_FAMILIES) {
        const works = isMet('iptables-nft') ? 'works' : 'no-family'
        assert.equal(await tryNftFamily(netlink, family, { signal: soon() }), works)
        assert.equal(await tryNftFamily(netlink, family, { signal: soon() }), works, 'again')
      }
      assert.equal(announcements.receive(), undefined)
      assert.equal(traces(), before)
      if (isMet('nft')) {
        sh('nft add table ip probe; nft delete table ip probe')
        assert.ok(announcements.receive(), 'what is made is announced')
      }
    } finally {
      announcements.close()
      netlink.close()
    }
  })
})

describe('askScheduler', () => {
  it('agrees with ipvsadm, with and without virtual servers, and creates none', async () => {
    const ipvs = await IpvsConnection.open(openNetlinkConnection(NETLINK_GENERIC), { signal: soon() })
    try {
      for (const scheduler of ['rr', 'wrr', 'lc', 'wlc', 'sh', 'dh', 'sed', 'nq', 'mh', 'lblc', 'fo', 'nosuch']) {
        const expected = succeeds(`ipvsadm -A -t 192.0.2.1:1 -s ${scheduler}`) ? 'present' : 'missing'
        assert.equal(await askScheduler(ipvs, scheduler, { signal: soon() }), expected, scheduler)
        const [saved = '', ...others] = ipvsadm('-S', '-n').trim().split('\n')
        assert.equal(saved, expected === 'present' ? `-A -t 192.0.2.1:1 -s ${scheduler}` : '')
        assert.deepEqual(others, [])
        sh('ipvsadm -C')
        assert.equal(await askScheduler(ipvs, scheduler, { signal: soon() }), expected, `${scheduler} again`)
      }
      sh('ipvsadm -A -t [2001:db8::c0de]:20000 -s rr')
      assert.equal(await askScheduler(ipvs, 'rr', { signal: soon() }), 'unknown')
      assert.equal(ipvsadm('-S', '-n').trim(), '-A -t [2001:db8::c0de]:20000 -s rr')
    } finally {
      sh('ipvsadm -C')
      ipvs.close()
    }
  })
})
