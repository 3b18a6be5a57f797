/** Kernel settings: which, by configuration, and how they are written to a folder that stands for /proc and /sys. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { parse } from 'yaml'
import { defaultConfiguration, loadConfiguration } from '../../src/config/load.ts'
import type { ConntrackSettings } from '../../src/config/types.ts'
import { conntrackLimit, conntrackSettings } from '../../src/node/conntrack-settings.ts'
import { processorCount } from '../../src/node/host.ts'
import { type KernelSetting, sysctl } from '../../src/node/kernel-setting.ts'
import { applySysctls, ipvsSysctls } from '../../src/node/sysctl.ts'
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
    ['nothing without maxPerCore, whatever min says', { maxPerCore: 0, min: 131_072 }, 8, 0],
    ['min where it is larger', { maxPerCore: 32_768, min: 131_072 }, 2, 131_072],
    ['maxPerCore times processors', { maxPerCore: 32_768, min: 131_072 }, 8, 262_144],
    ['no more than the cap', { maxPerCore: 32_768, min: 131_072 }, 128, 1_048_576],
    ['the cap, exactly', { maxPerCore: 32_768, min: 0 }, 32, 1_048_576],
    ['a min above the cap', { maxPerCore: 1, min: 2_000_000 }, 1, 2_000_000],
    ['the cap, even where min is larger', { maxPerCore: 2_000_000, min: 3_000_000 }, 1, 1_048_576],
  ] as const)
    it(what, () => assert.equal(conntrackLimit({ ...NOTHING, ...settings }, processors), limit))
})

describe('conntrackSettings', () => {
  it('sets nothing where everything is 0', () => assert.deepEqual(conntrackSettings(NOTHING, 4), []))

  it('sets the defaults in order, the hash size behind the limit', () =>
    assert.deepEqual(conntrackSettings(DEFAULTS, 2), [
      sysctl('net/netfilter/nf_conntrack_max', 131_072),
      HASH_SIZE,
      sysctl('net/netfilter/nf_conntrack_tcp_timeout_established', 86_400),
      sysctl('net/netfilter/nf_conntrack_tcp_timeout_close_wait', 3600),
    ]))

  it('counts whole seconds', () =>
    assert.deepEqual(conntrackSettings({ ...NOTHING, udpTimeoutMs: 45_999 }, 1).map(text), [
      'net/netfilter/nf_conntrack_udp_timeout = 45',
    ]))

  // What each case recorded for its configuration; a larger hash size stays.
  for (const name of ['base-no-services', 'conntrack-config', 'conntrack-config-cap', 'strict-arp'])
    it(`makes of a fresh kernel what was recorded of ${name}`, () => {
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
    it(`on ${release} ${reuse ? 'sets' : 'leaves'} conn_reuse_mode`, () => {
      const wanted = reuse ? always.toSpliced(1, 0, 'net/ipv4/vs/conn_reuse_mode = 0') : always
      assert.deepEqual(names(false, release), wanted)
    })

  it('takes strictARP', () =>
    assert.deepEqual(names(true, '6.1.0').slice(4), [
      'net/ipv4/conf/all/arp_ignore = 1',
      'net/ipv4/conf/all/arp_announce = 2',
    ]))

  it('never writes IPv6 forwarding', () => assert.ok(!names(true, '6.1.0').join().includes('ipv6')))
})

describe('settings', () => {
  let root: string
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'kube-ipvs-sysctl-'))
  })
  afterEach(() => rmSync(root, { recursive: true }))

  function file(path: string, value: string): string {
    mkdirSync(dirname(root + path), { recursive: true })
    writeFileSync(root + path, value)
    return root + path
  }
  const value = (path: string): string => readFileSync(root + path, 'utf8').trim()
  const forward = sysctl('net/ipv4/ip_forward', 1)

  it('are written where they differ, and not touched where they do not', () => {
    file(forward.path, '0\n')
    const same = sysctl('net/ipv4/vs/conntrack', 1)
    const untouched = file(same.path, '1\n')
    utimesSync(untouched, 1, 1)
    assert.deepEqual(applySysctls([forward, same], root), [])
    assert.deepEqual([value(forward.path), statSync(untouched).mtimeMs], ['1', 1000])
  })

  it('that are to be at least so large are never lowered', () => {
    for (const [before, after] of [
      ['65536', '65536'],
      ['32768', '32768'],
      ['16384', '32768'],
    ] as const) {
      file(HASH_SIZE.path, `${before}\n`)
      assert.deepEqual(applySysctls([HASH_SIZE], root), [])
      assert.equal(value(HASH_SIZE.path), after)
    }
  })

  it('that do not exist are reported, and the others are written', () => {
    file(forward.path, '0\n')
    const [problem, ...more] = applySysctls([sysctl('net/ipv4/vs/conntrack', 1), HASH_SIZE, forward], root)
    assert.deepEqual(problem, {
      code: 'sysctl',
      subject: 'sysctl',
      field: 'net/ipv4/vs/conntrack',
      message: 'cannot set it to 1: this kernel does not have it, or its module is not loaded',
    })
    assert.deepEqual(
      more.map(({ field }) => field),
      [HASH_SIZE.path],
    )
    assert.equal(value(forward.path), '1')
  })

  it('that cannot be written are reported with the reason', () => {
    mkdirSync(root + forward.path, { recursive: true })
    assert.match(applySysctls([forward], root)[0]?.message ?? '', /^cannot set it to 1: EISDIR/)
  })

  it('count on the processors that are online', () => {
    for (const [online, count] of [
      ['0', 1],
      ['0-3', 4],
      ['0-1,4,6-7', 5],
    ] as const) {
      file('/sys/devices/system/cpu/online', `${online}\n`)
      assert.equal(processorCount(root), count)
    }
    file('/sys/devices/system/cpu/online', '\n')
    assert.ok(processorCount(root) >= 1)
    assert.ok(processorCount(join(root, 'nothing')) >= 1)
  })
})
