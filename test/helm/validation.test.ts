/**
 * A wrong value of `config` fails at `helm install` in the words of the program: every message of
 * the chart is compared with that of the program for the same document.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it, test } from 'node:test'
import fc from 'fast-check'
import { patterns } from '../../dev/helm/validation-data.ts'
import { loadConfiguration } from '../../src/config/load.ts'
import { API_VERSION, KIND } from '../../src/config/schema.ts'
import { parseAddressSloppy } from '../../src/values/address.ts'
import { parseCidr } from '../../src/values/cidr.ts'
import { LEAST, needsHelm, reasonOf, render } from './helm.ts'
import { OF_KUBEADM } from './kubeadm-configuration.ts'
import { objectsIn } from './renderings.ts'

/** Why the program refuses a document; empty when it accepts it. */
function programSays(config: object): string {
  const result = loadConfiguration(JSON.stringify({ apiVersion: API_VERSION, kind: KIND, ...config }), 'document')
  return 'errors' in result ? result.errors.map(({ message }) => message).join('; ') : ''
}

/** The reasons of a message, which lists several in brackets; their order is not compared. */
function parts(message: string): readonly string[] {
  const [, stage = '', list] = /^([a-z ]+: )\[(.*)\]$/.exec(message) ?? []
  return list === undefined
    ? [message]
    : list
        .split(/, (?=KubeProxyConfiguration|logging|cannot)/)
        .map((one) => stage + one)
        .sort()
}

const REFUSED: Readonly<Record<string, readonly object[]>> = {
  durations: [
    { ipvs: { syncPeriod: '5' } },
    { ipvs: { syncPeriod: '5x' } },
    { ipvs: { syncPeriod: '' } },
    { ipvs: { syncPeriod: '-' } },
    { ipvs: { syncPeriod: '1h5' } },
    { ipvs: { syncPeriod: '1.2.3s' } },
    { ipvs: { syncPeriod: '.s' } },
    { ipvs: { syncPeriod: ' 5s' } },
    { iptables: { minSyncPeriod: '1 s' } },
    { logging: { flushFrequency: '5y' } },
  ],
  'ranges and signs': [
    { iptables: { masqueradeBit: 32 } },
    { iptables: { masqueradeBit: -1 } },
    { oomScoreAdj: 1001 },
    { oomScoreAdj: -5000000 },
    { conntrack: { maxPerCore: -1 } },
    { conntrack: { min: -1000000 } },
    { conntrack: { tcpEstablishedTimeout: '-90s' } },
    { ipvs: { tcpTimeout: '-1.5s' } },
    { ipvs: { syncPeriod: '-1s' } },
    { ipvs: { minSyncPeriod: '-1s' } },
    { ipvs: { syncPeriod: '1s', minSyncPeriod: '1m' } },
    { mode: 'iptables', iptables: { syncPeriod: '500ms' } },
    { mode: 'iptables', iptables: { syncPeriod: '-5s' } },
    { clientConnection: { burst: -1 } },
    { configSyncPeriod: '-1s' },
    { kubeIPVS: { maxFrontendsPerService: 0 } },
    { kubeIPVS: { serviceMetricsLimit: -1 } },
    { kubeIPVS: { drainDeadline: '-1m' } },
  ],
  addresses: [
    { bindAddress: 'here' },
    { bindAddress: '1.2.3' },
    { healthzBindAddress: 'x' },
    { healthzBindAddress: '1.2.3.4:0' },
    { healthzBindAddress: '1.2.3.4:99999' },
    { metricsBindAddress: '[::1' },
    { metricsBindAddress: 'localhost:10249' },
    { metricsBindAddress: '[::]:http' },
    { nodePortAddresses: ['primary', 'primary'] },
    { nodePortAddresses: ['10.0.0.0/8', '10.0.0.1'] },
    { ipvs: { excludeCIDRs: ['10.0.0.0/33'] } },
    { kubeIPVS: { allowedExternalIPs: ['fd00::/129', '1.2.3.4/8'] } },
    { kubeIPVS: { allowedLoadBalancerIPs: ['x'] } },
    { clusterCIDR: '10.0.0.0/8,10.1.0.0/16' },
    { clusterCIDR: '10.0.0.0' },
    { clusterCIDR: '10.0.0.0/8,fd00::/8,fd01::/16' },
  ],
  words: [
    { mode: 'IPVS' },
    { mode: 'nftables' },
    { detectLocalMode: 'clusterCIDR' },
    { detectLocalMode: 'BridgeInterface' },
    { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: '' } },
    { kubeIPVS: { fallback: 'nftables' } },
    { showHiddenMetricsForVersion: '1.34' },
    { featureGates: { SidecarContainers: false } },
    { logging: { format: 'xml' } },
    { logging: { format: 'json', vmodule: [{ filePattern: 'a', verbosity: 1 }] } },
    {
      logging: {
        vmodule: [
          { filePattern: '', verbosity: 1 },
          { filePattern: 'a=b', verbosity: 2 },
        ],
      },
    },
    { logging: { verbosity: 3000000000 } },
    { logging: { flushFrequency: -5 } },
    { logging: { flushFrequency: '-5s' } },
    { logging: { options: { json: { infoBufferSize: '4Ki' } } } },
  ],
  'ipvs mode beside the gate that refuses it': [
    { featureGates: { KubeProxyIPVS: false } },
    { featureGates: { KubeProxyIPVS: false }, kubeIPVS: null },
    { featureGates: { KubeProxyIPVS: false }, mode: 'wrong' },
  ],
  'several mistakes': [
    { oomScoreAdj: 5000, bindAddress: 'x', ipvs: { excludeCIDRs: ['a', 'b'] }, mode: 'wrong' },
    { mode: 'ipvs', iptables: { masqueradeBit: 40 }, conntrack: { min: -1 }, detectLocalMode: 'BridgeInterface' },
  ],
}

/** Blocks without content, which YAML reads as null. */
const EMPTY_BLOCKS = {
  clientConnection: null,
  conntrack: null,
  detectLocal: null,
  featureGates: null,
  iptables: null,
  ipvs: null,
  kubeIPVS: null,
  logging: { options: null, vmodule: null },
  nftables: null,
  winkernel: null,
}

const ACCEPTED: readonly object[] = [
  OF_KUBEADM,
  EMPTY_BLOCKS,
  { ...EMPTY_BLOCKS, logging: null },
  { logging: { options: { json: null, text: null } } },
  {},
  { mode: '' },
  { featureGates: { KubeProxyIPVS: true } },
  { featureGates: { KubeProxyIPVS: false }, mode: 'iptables' },
  { featureGates: { KubeProxyIPVS: false }, kubeIPVS: {} },
  { featureGates: { KubeProxyIPVS: false }, kubeIPVS: { fallback: 'none' } },
  { apiVersion: API_VERSION, kind: KIND, mode: 'iptables', iptables: { syncPeriod: '1s' } },
  { oomScoreAdj: -1000, conntrack: { maxPerCore: 0, min: 3_000_000, tcpEstablishedTimeout: null, udpTimeout: '0s' } },
  { ipvs: { syncPeriod: '0s', minSyncPeriod: '0', excludeCIDRs: null, tcpTimeout: '1h2m3.5s' } },
  { clusterCIDR: '10.0.0.0/8,fd00::/108', detectLocalMode: '', bindAddress: '::', nodePortAddresses: null },
  { healthzBindAddress: '0.0.0.0', metricsBindAddress: '[::]:10249', clientConnection: { burst: 0, qps: 0.5 } },
  {
    logging: {
      flushFrequency: 0,
      verbosity: 0,
      options: { json: { infoBufferSize: '0' }, text: { infoBufferSize: 0 } },
    },
  },
  {
    featureGates: { LoggingAlphaOptions: true, SidecarContainers: true },
    logging: { options: { text: { splitStream: true } } },
  },
  {
    showHiddenMetricsForVersion: '1.36',
    kubeIPVS: { allowedExternalIPs: [], fallback: 'none', maxFrontendsPerService: 1 },
  },
]

interface Refusal {
  readonly config: object
  /** What helm said. */
  readonly said: string
}

const REFUSALS = new URL('golden/refusals.json', import.meta.url)

/** The recorded refusals, so that they are compared with the program on machines without helm too. */
function recordedRefusals(): readonly Refusal[] {
  if (process.env['UPDATE_GOLDEN'] === '1' && needsHelm.skip === false) {
    const refusals = Object.values(REFUSED).flatMap((configs) =>
      configs.map((config) => ({ config, said: chartSays(config) })),
    )
    writeFileSync(REFUSALS, `[\n${refusals.map((one) => JSON.stringify(one)).join(',\n')}\n]\n`)
  }
  return JSON.parse(readFileSync(REFUSALS, 'utf8'))
}

/** Why the chart refuses a configuration. */
function chartSays(config: object): string {
  return reasonOf(render({ ...LEAST, config: { mode: 'ipvs', ...config } }))
}

function isRefusedAlike(config: object, said: string): void {
  // A file has lines, and the values of a chart have none.
  const expected = programSays({ mode: 'ipvs', ...config }).replace(/: line 1: /, ': ')
  assert.notEqual(expected, '', JSON.stringify(config))
  assert.deepEqual(parts(said), parts(expected), JSON.stringify(config))
}

test('the recorded refusals of the chart have the words of the program', () => {
  const refusals = recordedRefusals()
  assert.deepEqual(
    refusals.map(({ config }) => config),
    Object.values(REFUSED).flat(),
  )
  for (const { config, said } of refusals) isRefusedAlike(config, said)
})

describe('the checks of config in the chart', needsHelm, () => {
  for (const [about, configs] of Object.entries(REFUSED))
    it(`refuse ${about} in the words of the program`, () => {
      for (const config of configs) isRefusedAlike(config, chartSays(config))
    })

  it('accept what the program accepts', () => {
    for (const config of ACCEPTED) {
      assert.equal(programSays(config), '', JSON.stringify(config))
      assert.equal(render({ ...LEAST, config }).error, '', JSON.stringify(config))
    }
  })

  it('are preceded by the schema, which refuses unknown names and wrong types', () => {
    const refused = (values: object): string => reasonOf(render({ ...LEAST, ...values }))
    assert.match(
      refused({ config: { ipvs: { schedular: 'rr' } } }),
      /'\/config\/ipvs': additional properties 'schedular' not allowed/,
    )
    assert.match(refused({ config: { oomScoreAdj: '5' } }), /'\/config\/oomScoreAdj': got string, want null or integer/)
    assert.match(
      refused({ config: { iptables: { masqueradeBit: 2 ** 31 } } }),
      /'\/config\/iptables\/masqueradeBit': maximum/,
    )
    assert.match(refused({ config: { apiVersion: 'v1' } }), /'\/config\/apiVersion': value must be/)
    assert.match(refused({ imag: {} }), /additional properties 'imag' not allowed/)
    assert.match(refused({ image: { digest: 'sha256:0' } }), /'\/image\/digest'/)
  })
})

describe('other mistakes in values', needsHelm, () => {
  it('fail with one sentence that says what to set', () => {
    assert.match(reasonOf(render({})), /^apiServer\.host is required: the address of the API server/)
    const config = { clientConnection: { kubeconfig: '/etc/k/kubeconfig' } }
    const mounted = (mountPath: string) => ({ config, extraVolumeMounts: [{ name: 'k', mountPath }] })
    for (const mountPath of ['/etc/k', '/etc/k/', '/etc', '/etc/k/kubeconfig'])
      assert.equal(render(mounted(mountPath)).error, '', mountPath)
    for (const values of [{ config }, mounted('/etc/kube'), mounted('/etc/k/kube')])
      assert.match(
        reasonOf(render(values)),
        /nothing in extraVolumeMounts has the file \/etc\/k\/kubeconfig; remove the field/,
      )
    assert.match(reasonOf(render({ ...LEAST, config })), /and apiServer\.host are both set: remove one/)
    // `config:` without anything below it.
    assert.equal(render({ ...LEAST, config: null }).error, '')
    const monitored = (metricsBindAddress?: string): string =>
      reasonOf(render({ ...LEAST, podMonitor: { enabled: true }, config: { metricsBindAddress } }))
    for (const loopback of [undefined, '', '127.0.0.1', '127.0.0.1:10249', '::1', '[::1]:10249'])
      assert.match(monitored(loopback), /^podMonitor\.enabled: .* set config\.metricsBindAddress to 0\.0\.0\.0:10249/)
    for (const open of ['0.0.0.0', '0.0.0.0:10249', '[::]:9000', '10.0.0.1:10249']) assert.equal(monitored(open), '')
  })
})

describe('the probes', needsHelm, () => {
  const probed = (healthzBindAddress?: string): readonly unknown[] => {
    const [set] = objectsIn(render({ ...LEAST, config: { healthzBindAddress } }).output).filter(
      ({ kind }) => kind === 'DaemonSet',
    )
    const [main] = Object(set).spec.template.spec.containers
    return [main.ports[0].containerPort, main.livenessProbe.httpGet.host, main.readinessProbe.httpGet.host]
  }

  it('ask the port and the address at which the daemon listens', () => {
    assert.deepEqual(probed(), [10256, undefined, undefined])
    assert.deepEqual(probed('0.0.0.0:8080'), [8080, undefined, undefined])
    assert.deepEqual(probed('[::]:8080'), [8080, undefined, undefined])
    assert.deepEqual(probed('::'), [10256, undefined, undefined])
    assert.deepEqual(probed('127.0.0.1:8080'), [8080, '127.0.0.1', '127.0.0.1'])
    assert.deepEqual(probed('127.0.0.1'), [10256, '127.0.0.1', '127.0.0.1'])
    assert.deepEqual(probed('[::1]:8080'), [8080, '::1', '::1'])
    assert.deepEqual(probed('fd00::1'), [10256, 'fd00::1', 'fd00::1'])
  })
})

describe('the patterns of the chart', () => {
  const { address, cidr } = patterns()
  const character = fc.constantFrom(...'0123456789abfF.:/', '::', '255', '256', 'ffff', '1.2.3.4', '/32', '/128')
  const near = fc.array(character, { maxLength: 12 }).map((letters) => letters.join(''))
  const text = fc.oneof(
    near,
    fc.ipV4(),
    fc.ipV6(),
    fc.tuple(fc.ipV6(), fc.nat(140)).map(([ip, length]) => `${ip}/${length}`),
  )

  it('match exactly the addresses and ranges that the program reads', () => {
    fc.assert(
      fc.property(text, (some) => {
        assert.equal(new RegExp(address).test(some), parseAddressSloppy(some) !== undefined, some)
        assert.equal(new RegExp(cidr).test(some), parseCidr(some) !== undefined, some)
      }),
      { numRuns: 3000 },
    )
  })
})
