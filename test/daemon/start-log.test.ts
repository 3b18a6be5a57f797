import assert from 'node:assert/strict'
import { test } from 'node:test'
import { completeModes } from '../../src/config/complete.ts'
import { defaultDocument } from '../../src/config/load.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'
import { logMode, logNode, NO_MODE } from '../../src/daemon/start-log.ts'
import type { FamilySupport } from '../../src/node/families.ts'
import { recordingLog } from '../support/recording-log.ts'

const BOTH: FamilySupport = { families: ['IPv4', 'IPv6'], lacks: [] }
const DISABLED: FamilySupport = { families: ['IPv4'], lacks: [{ family: 'IPv6', why: 'disabled' }] }
const NO_KERNEL: FamilySupport = { families: ['IPv4'], lacks: [{ family: 'IPv6', why: 'kernel' }] }
const NO_IPTABLES: FamilySupport = { families: ['IPv6'], lacks: [{ family: 'IPv4', why: 'iptables', reason: 'none' }] }
const NO_NFTABLES: FamilySupport = { families: ['IPv4'], lacks: [{ family: 'IPv6', why: 'nftables', reason: 'none' }] }

/** The lines that are logged without verbosity, and the error. */
function logged(support: FamilySupport, nodeIps: readonly string[], more: Partial<KubeProxyConfiguration> = {}) {
  const log = recordingLog(0)
  const configuration = { ...defaultConfiguration(), nodePortAddresses: ['primary'], ...more }
  const error = logNode({ configuration, support, nodeIps, podCidrs: [], log })
  const lines = log.lines.map(({ message, fields }) => [message, ...Object.values(fields).map(String)].join(' '))
  return { lines, error: error?.message }
}

test('logNode logs once which families are served and why others are not', () => {
  const rows: readonly (readonly [support: FamilySupport, nodeIps: readonly string[], lines: readonly string[]])[] = [
    [BOTH, ['10.0.0.1'], ['kube-proxy running in dual-stack mode IPv4']],
    [BOTH, ['fd00::1', '10.0.0.1'], ['kube-proxy running in dual-stack mode IPv6']],
    [
      DISABLED,
      ['10.0.0.1'],
      ['Kernel support disabled for family IPv6', 'kube-proxy running in single-stack mode IPv4'],
    ],
    [NO_KERNEL, [], ['No kernel support for family IPv6', 'kube-proxy running in single-stack mode IPv4']],
    [
      NO_IPTABLES,
      ['fd00::1'],
      [
        'No iptables support for family IPv4 none',
        'kube-proxy running in single-stack mode IPv6',
        'Kube-proxy configuration may be incomplete or incorrect AggregateError: cluster is IPv6-only but metricsBindAddress is IPv4',
      ],
    ],
    [
      NO_NFTABLES,
      ['10.0.0.1'],
      ['No nftables support for family IPv6 none', 'kube-proxy running in single-stack mode IPv4'],
    ],
  ]
  for (const [support, nodeIps, lines] of rows) assert.deepEqual(logged(support, nodeIps), { lines, error: undefined })
})

test('logNode returns an error where the primary family is not served', () => {
  const rows: readonly (readonly [
    support: FamilySupport,
    nodeIps: readonly string[],
    bindAddress: string,
    family: string,
  ])[] = [
    [DISABLED, ['fd00::1', '10.0.0.1'], '0.0.0.0', 'IPv6'],
    [NO_KERNEL, ['10.0.0.1'], 'fd00::1', 'IPv6'],
    [NO_IPTABLES, ['10.0.0.1'], '::', 'IPv4'],
    // Without any address of the Node an unspecified bindAddress means IPv4.
    [NO_IPTABLES, [], '::', 'IPv4'],
    [NO_IPTABLES, [], '', 'IPv4'],
  ]
  for (const [support, nodeIps, bindAddress, family] of rows)
    assert.equal(
      logged(support, nodeIps, { bindAddress }).error,
      `no support for primary IP family "${family}"`,
      `${bindAddress} ${nodeIps.join()}`,
    )
  assert.equal(logged(DISABLED, ['fd00::1'], { bindAddress: '10.0.0.1' }).error, undefined)
})

test('logMode logs an error where nobody has chosen the mode, and none where iptables mode is chosen or a fallback', () => {
  const messages = (configuration: KubeProxyConfiguration): readonly string[] => {
    const log = recordingLog(0)
    logMode('iptables', configuration, ['IPv4'], log)
    return log.lines.map(({ level, message }) => `${level} ${message}`)
  }
  const { modeIsDefault } = completeModes(defaultDocument())
  assert.equal(modeIsDefault, true)
  assert.deepEqual(messages({ ...defaultConfiguration('iptables'), modeIsDefault }), [
    `error ${NO_MODE}`,
    'info Using iptables Proxier',
  ])
  assert.deepEqual(messages(defaultConfiguration('iptables')), ['info Using iptables Proxier'])
  assert.deepEqual(messages(defaultConfiguration('ipvs')), ['info Using iptables Proxier'])
  assert.match(NO_MODE, /^No kube-proxy mode specified: defaulting to 'iptables'\. Note that in Kubernetes 1\.40 /)
})

test('logMode names no ipset, because the firewall that is chosen afterwards may have none', () => {
  const log = recordingLog()
  logMode('ipvs', defaultConfiguration('ipvs'), ['IPv4', 'IPv6'], log)
  const messages = new Set(log.lines.map(({ message }) => message))
  assert.ok(messages.has('Using ipvs Proxier') && messages.has('ipvs sync params'))
  assert.ok(![...messages].some((message) => /ipset/i.test(message)), [...messages].join('; '))
})

test('logNode logs what is doubtful and returns an error where kube-proxy ends', () => {
  const doubtful = logged(BOTH, ['10.0.0.1'], { nodePortAddresses: [], clusterCIDR: 'fd00::/48' })
  assert.deepEqual(
    doubtful.lines.map((line) => line.replace(/^(Kube-proxy configuration may be \w+).*: (\w+).*/, '$1: $2')),
    [
      'Kube-proxy configuration may be incomplete: nodePortAddresses',
      'kube-proxy running in dual-stack mode IPv4',
      'Kube-proxy configuration may be incomplete: cluster',
    ],
  )
  const dual = { clusterCIDR: '10.244.0.0/16,fd00:10:244::/56' }
  const primaryLines = (nodeIps: readonly string[], more: Partial<KubeProxyConfiguration> = {}) =>
    logged(BOTH, nodeIps, { ...dual, ...more }).lines.filter((line) => line.includes('only IPv4 addresses'))
  assert.equal(primaryLines(['10.0.0.1']).length, 1)
  assert.equal(primaryLines(['10.0.0.1'], { bindAddress: 'fd00::1' }).length, 0)
  assert.equal(primaryLines(['10.0.0.1', 'fd00::1']).length, 0)
  assert.equal(
    logged(DISABLED, ['10.0.0.1'], { clusterCIDR: 'fd00::/48' }).error,
    'kube-proxy configuration is incorrect: cluster is IPv4-only but clusterCIDRs contains only IPv6 addresses',
  )
})
