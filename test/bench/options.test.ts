/** The bench's command line. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type BenchOptions, parseBenchOptions } from '../../dev/bench/options.ts'

const OURS = [
  'traffic/ipvs',
  'traffic/iptables',
  'kube-ipvs/addresses',
  'kube-ipvs/routes',
  'kube-ipvs/iptables',
] as const
const EXPERIMENT = { series: OURS, directory: 'docs/performance', again: false, drawOnly: false } as const
const HANDOVER_DEFAULTS: Partial<BenchOptions> = {
  sizes: [1_000],
  modes: ['ipvs', 'iptables'],
  handover: { held: 1_000, connections: 10_000, rate: 500 },
}
const DEFAULTS: BenchOptions = {
  sizes: [100, 1_000, 10_000],
  endpoints: 5,
  modes: ['ipvs'],
  virtualAddresses: 'addresses',
  repeats: 3,
  native: false,
  output: 'text',
  changes: 200,
  idleSeconds: 60,
  slope: false,
  burstWithProbe: false,
  hostile: false,
}

describe('parseBenchOptions', () => {
  const accepted: readonly [line: string, expected: Partial<BenchOptions>][] = [
    ['', {}],
    ['--services 50000', { sizes: [50_000] }],
    ['--services 100,1000', { sizes: [100, 1_000] }],
    ['--services 100 --services 1000', { sizes: [100, 1_000] }],
    ['--endpoints 2 --output json', { endpoints: 2, output: 'json' }],
    ['-o json --slope', { output: 'json', slope: true }],
    ['--burst-with-probe', { burstWithProbe: true }],
    ['--proxy /bin/p:--config={config}', { proxy: '/bin/p:--config={config}' }],
    ['--idle-seconds 5 --changes 10', { idleSeconds: 5, changes: 10 }],
    ['--virtual-addresses routes', { virtualAddresses: 'routes' }],
    ['--mode iptables', { modes: ['iptables'] }],
    ['--mode iptables,ipvs --repeats 5', { modes: ['iptables', 'ipvs'], repeats: 5 }],
    ['--native', { native: true, modes: ['iptables'] }],
    ['--json-file runs.json', { jsonFile: 'runs.json' }],
    ['--compare runs.json', { compare: 'runs.json' }],
    ['--hostile', { hostile: true, sizes: [1_000], changes: 300 }],
    ['--hostile --services 5 --changes 6', { hostile: true, sizes: [5], changes: 6 }],
    ['--handover', HANDOVER_DEFAULTS],
    [
      '--handover --held 3 --connections 4 --rate 5 --services 6',
      { ...HANDOVER_DEFAULTS, sizes: [6], handover: { held: 3, connections: 4, rate: 5 } },
    ],
    ['--experiment', { experiment: EXPERIMENT }],
    [
      '--experiment --services 5 --series traffic/ipvs,kube-ipvs/routes --again --directory /tmp/x',
      {
        sizes: [5],
        experiment: {
          series: ['traffic/ipvs', 'kube-ipvs/routes'],
          sizes: [5],
          directory: '/tmp/x',
          again: true,
          drawOnly: false,
        },
      },
    ],
    ['--experiment --draw-only', { experiment: { ...EXPERIMENT, drawOnly: true } }],
  ]
  for (const [line, expected] of accepted)
    it(`reads "${line}"`, () =>
      assert.deepEqual(parseBenchOptions(line.split(' ').filter(Boolean)), { ...DEFAULTS, ...expected }))

  it('measures both modes when there is a kube-proxy to compare with, unless an option says otherwise', () => {
    assert.deepEqual(parseBenchOptions([], true), { ...DEFAULTS, modes: ['ipvs', 'iptables'] })
    assert.deepEqual(parseBenchOptions(['--mode', 'ipvs'], true), DEFAULTS)
    assert.deepEqual(parseBenchOptions(['--native'], true), { ...DEFAULTS, native: true, modes: ['iptables'] })
  })

  it('measures kube-proxy in three modes of the experiment when there is one', () => {
    const options = parseBenchOptions(['--experiment'], true)
    assert.ok('experiment' in options)
    const series = [...OURS, 'kube-proxy/ipvs', 'kube-proxy/iptables', 'kube-proxy/nftables']
    assert.deepEqual(options.experiment?.series, series)
  })

  const refused: readonly [line: string, message: RegExp][] = [
    ['--services 0', /--services is a whole number/],
    ['--services many', /--services is a whole number.*"many"/],
    ['--services 1.5', /--services is a whole number/],
    ['--services 999999999', /--services is a whole number/],
    ['--endpoints 0', /--endpoints is a whole number/],
    ['--output yaml', /--output is text or json/],
    ['--mode nftables', /--mode is ipvs or iptables, not "nftables"/],
    ['--native --mode ipvs', /--native measures iptables mode only/],
    ['--repeats 0', /--repeats is a whole number/],
    ['--handover --experiment', /--experiment is always measured in the same way, not with --handover/],
    ['--handover --proxy x', /--handover is always measured in the same way, not with --proxy/],
    ['--hostile --handover', /--hostile is always measured in the same way, not with --handover/],
    ['--handover --rate 2001', /--rate is a whole number from 1 to 2000/],
    ['--handover --connections 30001', /--connections is a whole number from 1 to 30000/],
    ['--experiment --native', /--experiment is always measured in the same way, not with --native/],
    ['--experiment --mode ipvs', /not with --mode/],
    ['--experiment --repeats 2', /not with --repeats/],
    ['--experiment --series kube-ipvs', /--series is one of traffic\/ipvs, .*not "kube-ipvs"/],
    ['--experiment --series kube-proxy/ipvs', /--series kube-proxy\/ipvs needs KUBE_PROXY=PATH/],
    ['--size 5', /--size/],
    ['stray', /stray/],
  ]
  for (const [line, message] of refused)
    it(`refuses "${line}"`, () => {
      const parsed = parseBenchOptions(line.split(' '))
      assert.match('error' in parsed ? parsed.error : 'accepted', message)
    })
})
