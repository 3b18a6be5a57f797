/** The bench's command line. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type BenchOptions, parseBenchOptions } from '../../dev/bench/options.ts'

const DEFAULTS: BenchOptions = {
  what: 'cost',
  sizes: [100, 1_000, 10_000],
  endpoints: 5,
  modes: ['ipvs'],
  firewalls: ['iptables'],
  virtualAddresses: 'addresses',
  repeats: 3,
  changes: 200,
  idleSeconds: 60,
  output: 'text',
}
const HANDOVER: Partial<BenchOptions> = { what: 'handover', sizes: [1_000], modes: ['ipvs', 'iptables'] }

describe('parseBenchOptions', () => {
  const accepted: readonly [line: string, expected: Partial<BenchOptions>][] = [
    ['', {}],
    ['--services 50000', { sizes: [50_000] }],
    ['--services 100,1000', { sizes: [100, 1_000] }],
    ['--services 100 --services 1000', { sizes: [100, 1_000] }],
    ['--endpoints 2 --output json', { endpoints: 2, output: 'json' }],
    ['-o json', { output: 'json' }],
    ['--idle-seconds 5 --changes 10', { idleSeconds: 5, changes: 10 }],
    ['--virtual-addresses routes', { virtualAddresses: 'routes' }],
    ['--firewall nftables,iptables', { firewalls: ['nftables', 'iptables'] }],
    ['--mode iptables', { modes: ['iptables'] }],
    ['--mode iptables,ipvs --repeats 5', { modes: ['iptables', 'ipvs'], repeats: 5 }],
    ['--hostile', { what: 'hostile', sizes: [1_000], changes: 300 }],
    ['--hostile --services 5 --changes 6', { what: 'hostile', sizes: [5], changes: 6 }],
    ['--handover', HANDOVER],
    ['--handover --services 6 --mode ipvs', { ...HANDOVER, sizes: [6], modes: ['ipvs'] }],
  ]
  for (const [line, expected] of accepted)
    it(`reads "${line}"`, () =>
      assert.deepEqual(parseBenchOptions(line.split(' ').filter(Boolean)), { ...DEFAULTS, ...expected }))

  it('measures both modes when there is a kube-proxy to compare with, unless an option says otherwise', () => {
    assert.deepEqual(parseBenchOptions([], true), { ...DEFAULTS, modes: ['ipvs', 'iptables'] })
    assert.deepEqual(parseBenchOptions(['--mode', 'ipvs'], true), DEFAULTS)
  })

  const refused: readonly [line: string, message: RegExp][] = [
    ['--services 0', /--services is a whole number/],
    ['--services many', /--services is a whole number.*"many"/],
    ['--services 1.5', /--services is a whole number/],
    ['--services 999999999', /--services is a whole number/],
    ['--endpoints 0', /--endpoints is a whole number/],
    ['--output yaml', /--output is text or json, not "yaml"/],
    ['--mode nftables', /--mode is ipvs or iptables, not "nftables"/],
    ['--firewall pf', /--firewall is iptables or nftables, not "pf"/],
    ['--virtual-addresses none', /--virtual-addresses is addresses or routes, not "none"/],
    ['--repeats 0', /--repeats is a whole number/],
    ['--handover --hostile', /--handover has a fixed form and takes no --hostile/],
    ['--handover --repeats 2', /takes no --repeats/],
    ['--handover --firewall nftables', /takes no --firewall/],
    ['--hostile --mode ipvs', /--hostile has a fixed form and takes no --mode/],
    ['--size 5', /--size/],
    ['stray', /stray/],
  ]
  for (const [line, message] of refused)
    it(`refuses "${line}"`, () => {
      const parsed = parseBenchOptions(line.split(' '))
      assert.match('error' in parsed ? parsed.error : 'accepted', message)
    })
})
