/** The bench's command line. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type BenchOptions, parseBenchOptions } from '../../dev/bench/options.ts'
import { NODE_FLAGS } from '../../dev/node-flags.ts'

const EXPERIMENT = { requests: 2_000, connections: 8_000, clients: 8, directory: 'docs/performance' }
const EXPERIMENT_DEFAULTS: Partial<BenchOptions> = {
  sizes: [1, 1_000, 5_000, 10_000],
  modes: ['ipvs', 'iptables'],
  repeats: 1,
  changes: 20,
  experiment: EXPERIMENT,
}
const HANDOVER_DEFAULTS: Partial<BenchOptions> = {
  sizes: [1_000],
  modes: ['ipvs', 'iptables'],
  handover: { held: 1_000, connections: 10_000, rate: 500 },
}
const OURS = ['kube-ipvs/addresses', 'kube-ipvs/routes', 'kube-ipvs/iptables'] as const
const OVER_SIZE = {
  series: OURS,
  directory: 'docs/performance',
  again: false,
  drawOnly: false,
  deadlineSeconds: 300,
} as const
const OVER_SIZE_DEFAULTS: Partial<BenchOptions> = {
  sizes: [100, 1_000, 5_000, 10_000, 50_000],
  changes: 100,
  idleSeconds: 40,
  overSize: OVER_SIZE,
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
  slopeChanges: 10_000,
  burstWithProbe: false,
  nodeFlags: NODE_FLAGS,
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
    ['--slope-changes 100000', { slope: true, slopeChanges: 100_000 }],
    ['--proxy /bin/p:--config={config}', { proxy: '/bin/p:--config={config}' }],
    ['--idle-seconds 5 --changes 10', { idleSeconds: 5, changes: 10 }],
    ['--profile /tmp/p', { profile: '/tmp/p' }],
    ['--virtual-addresses routes', { virtualAddresses: 'routes' }],
    ['--mode iptables', { modes: ['iptables'] }],
    ['--mode iptables,ipvs --repeats 5', { modes: ['iptables', 'ipvs'], repeats: 5 }],
    ['--native', { native: true, modes: ['iptables'] }],
    ['--json-file runs.json', { jsonFile: 'runs.json' }],
    ['--compare runs.json', { compare: 'runs.json' }],
    ['--handover', HANDOVER_DEFAULTS],
    [
      '--handover --held 3 --connections 4 --rate 5 --services 6',
      { ...HANDOVER_DEFAULTS, sizes: [6], handover: { held: 3, connections: 4, rate: 5 } },
    ],
    ['--experiment', EXPERIMENT_DEFAULTS],
    [
      '--experiment --services 5 --mode ipvs --repeats 2 --changes 7',
      { ...EXPERIMENT_DEFAULTS, sizes: [5], modes: ['ipvs'], repeats: 2, changes: 7 },
    ],
    [
      '--experiment --requests 3 --connections 4 --clients 2 --directory /tmp/x',
      { ...EXPERIMENT_DEFAULTS, experiment: { requests: 3, connections: 4, clients: 2, directory: '/tmp/x' } },
    ],
    ['--over-size', OVER_SIZE_DEFAULTS],
    [
      '--over-size --services 100 --series kube-ipvs/routes --again --deadline-seconds 60 --directory /tmp/x',
      {
        ...OVER_SIZE_DEFAULTS,
        sizes: [100],
        overSize: { ...OVER_SIZE, series: ['kube-ipvs/routes'], again: true, deadlineSeconds: 60, directory: '/tmp/x' },
      },
    ],
    ['--over-size --draw-only', { ...OVER_SIZE_DEFAULTS, overSize: { ...OVER_SIZE, drawOnly: true } }],
  ]
  for (const [line, expected] of accepted)
    it(`reads "${line}"`, () =>
      assert.deepEqual(parseBenchOptions(line.split(' ').filter(Boolean)), { ...DEFAULTS, ...expected }))

  it('measures both modes when there is a kube-proxy to compare with, unless an option says otherwise', () => {
    assert.deepEqual(parseBenchOptions([], true), { ...DEFAULTS, modes: ['ipvs', 'iptables'] })
    assert.deepEqual(parseBenchOptions(['--mode', 'ipvs'], true), DEFAULTS)
    assert.deepEqual(parseBenchOptions(['--native'], true), { ...DEFAULTS, native: true, modes: ['iptables'] })
  })

  it('measures kube-proxy over size in three modes when there is one', () => {
    const options = parseBenchOptions(['--over-size'], true)
    assert.ok('overSize' in options)
    assert.deepEqual(options.overSize?.series, [
      ...OURS,
      'kube-proxy/ipvs',
      'kube-proxy/iptables',
      'kube-proxy/nftables',
    ])
  })

  it('reads flags for node as one word', () =>
    assert.deepEqual(parseBenchOptions(['--node-flags=--max-lazy --single-threaded']), {
      ...DEFAULTS,
      nodeFlags: ['--max-lazy', '--single-threaded'],
    }))

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
    ['--handover --experiment', /--handover measures this program in a guest/],
    ['--handover --rate 2001', /--rate is a whole number from 1 to 2000/],
    ['--experiment --native', /--experiment measures this program in a guest/],
    ['--experiment --proxy x', /--experiment measures this program in a guest/],
    ['--experiment --connections 30001', /--connections is a whole number from 1 to 30000/],
    ['--over-size --mode ipvs', /--over-size measures in a guest what --series names: not with .*--mode/],
    ['--over-size --repeats 2', /not with .*--repeats/],
    ['--over-size --native', /not with .*--native/],
    ['--over-size --series kube-ipvs', /--series is one of kube-ipvs\/addresses, .*not "kube-ipvs"/],
    ['--over-size --series kube-proxy/ipvs', /--series kube-proxy\/ipvs needs KUBE_PROXY=PATH/],
    ['--over-size --deadline-seconds 0', /--deadline-seconds is a whole number/],
    ['--size 5', /--size/],
    ['stray', /stray/],
  ]
  for (const [line, message] of refused)
    it(`refuses "${line}"`, () => {
      const parsed = parseBenchOptions(line.split(' '))
      assert.match('error' in parsed ? parsed.error : 'accepted', message)
    })
})
