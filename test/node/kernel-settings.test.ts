/** The kernel settings that each configuration asks for, compared with what kube-proxy was recorded to set. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { parse } from 'yaml'
import { loadConfiguration } from '../../src/config/load.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import type { ConntrackSettings } from '../../src/config/types.ts'
import {
  conntrackLimit,
  conntrackSettings,
  ipvsSysctls,
  type KernelSetting,
  sysctl,
} from '../../src/node/kernel-settings.ts'
import { recorded } from '../support/recorded-cases.ts'
import { recordingPath } from '../support/recordings.ts'

const HASH_SIZE: KernelSetting = {
  path: '/sys/module/nf_conntrack/parameters/hashsize',
  value: 32_768,
  rule: 'at least',
}
const DEFAULTS = defaultConfiguration().conntrack
const NOTHING: ConntrackSettings = {
  maxPerCore: 0,
  min: 0,
  tcpEstablishedTimeoutMs: 0,
  tcpCloseWaitTimeoutMs: 0,
  tcpBeLiberal: false,
  udpTimeoutMs: 0,
  udpStreamTimeoutMs: 0,
}

/** `nf_conntrack_max = 1`, as the recordings write it. */
const text = ({ path, value }: KernelSetting): string =>
  `${path.replace('/proc/sys/', '').replace('/sys/module/nf_conntrack/parameters/', 'module nf_conntrack ')} = ${value}`

describe('conntrackLimit', () => {
  for (const [what, settings, processors, limit] of [
    ['is 0 without maxPerCore, even with min', { maxPerCore: 0, min: 131_072 }, 8, 0],
    ['is min where that is larger', { maxPerCore: 32_768, min: 131_072 }, 2, 131_072],
    ['is maxPerCore times processors', { maxPerCore: 32_768, min: 131_072 }, 8, 262_144],
    ['is at most the cap', { maxPerCore: 32_768, min: 131_072 }, 128, 1_048_576],
    ['is the cap where the product equals it', { maxPerCore: 32_768, min: 0 }, 32, 1_048_576],
    ['is a min above the cap', { maxPerCore: 1, min: 2_000_000 }, 1, 2_000_000],
    [
      'is the cap where the product exceeds it, even if min is larger',
      { maxPerCore: 2_000_000, min: 3_000_000 },
      1,
      1_048_576,
    ],
  ] as const)
    it(what, () => assert.equal(conntrackLimit({ ...NOTHING, ...settings }, processors), limit))
})

describe('conntrackSettings', () => {
  it('is empty where every field is 0', () => assert.deepEqual(conntrackSettings(NOTHING, 4), []))

  it('lists the defaults in order, the hash size after the limit', () =>
    assert.deepEqual(conntrackSettings(DEFAULTS, 2), [
      { ...sysctl('net/netfilter/nf_conntrack_max', 131_072), rule: 'at least' },
      HASH_SIZE,
      sysctl('net/netfilter/nf_conntrack_tcp_timeout_established', 86_400),
      sysctl('net/netfilter/nf_conntrack_tcp_timeout_close_wait', 3600),
    ]))

  it('rounds timeouts down to whole seconds', () =>
    assert.deepEqual(conntrackSettings({ ...NOTHING, udpTimeoutMs: 45_999 }, 1).map(text), [
      'net/netfilter/nf_conntrack_udp_timeout = 45',
    ]))

  // The recordings list every sysctl after kube-proxy started with the configuration of the case; a
  // larger hash size stays.
  for (const name of ['base-no-services', 'conntrack-config', 'conntrack-config-cap', 'strict-arp'])
    it(`gives a fresh kernel the values recorded for ${name}`, () => {
      const { config } = parse(readFileSync(recordingPath(`cases/${name}/case.yaml`), 'utf8'))
      const loaded = loadConfiguration(
        JSON.stringify({
          apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
          kind: 'KubeProxyConfiguration',
          mode: 'ipvs',
          ...config,
        }),
        name,
      )
      assert.ok('configuration' in loaded)
      const { conntrack, ipvs } = loaded.configuration
      const lines = recorded(name, 1, 'sysctl.txt').trim().split('\n')
      for (const setting of [...ipvsSysctls(ipvs.strictARP, '7.2.13'), ...conntrackSettings(conntrack, 1)]) {
        const wanted = setting.rule === 'at least' ? { ...setting, value: Math.max(setting.value, 65_536) } : setting
        assert.ok(lines.includes(text(wanted)), text(wanted))
      }
    })
})

describe('ipvsSysctls', () => {
  const names = (strictArp: boolean, release: string): string[] => ipvsSysctls(strictArp, release).map(text)
  const always = [
    'net/ipv4/vs/conntrack = 1',
    'net/ipv4/vs/expire_nodest_conn = 1',
    'net/ipv4/vs/expire_quiescent_template = 1',
    'net/ipv4/ip_forward = 1',
  ]

  for (const [release, reuse] of [
    ['4.18.0-553.el8.x86_64', true],
    ['5.8.18', true],
    ['4.0.9', false],
    ['5.9.0-rc1', false],
    ['5.10.0-35-amd64', false],
    ['7.2.13', false],
  ] as const)
    it(`on ${release} ${reuse ? 'sets conn_reuse_mode to 0' : 'leaves conn_reuse_mode'}`, () => {
      const wanted = reuse ? always.toSpliced(1, 0, 'net/ipv4/vs/conn_reuse_mode = 0') : always
      assert.deepEqual(names(false, release), wanted)
    })

  it('sets two ARP settings for strictARP', () =>
    assert.deepEqual(names(true, '6.1.0').slice(4), [
      'net/ipv4/conf/all/arp_ignore = 1',
      'net/ipv4/conf/all/arp_announce = 2',
    ]))

  it('has no setting of IPv6', () => assert.ok(!names(true, '6.1.0').join().includes('ipv6')))
})
