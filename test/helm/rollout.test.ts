/**
 * For which changes of the values the chart replaces Pods: for none that a running daemon applies,
 * the mode included.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { valueAt } from '../../src/config/values.ts'
import { LEAST, needsHelm, render } from './helm.ts'
import { OF_KUBEADM } from './kubeadm-configuration.ts'
import { objectsIn, VALUES, valuesIn } from './renderings.ts'

const [QUICK_START = {}] = valuesIn('docs/quick-start.md')

/** What only one of the modes reads. */
const OF_ONE_MODE = {
  ipvs: { scheduler: 'mh', strictARP: true, tcpTimeout: '1h', tcpFinTimeout: '1m', udpTimeout: '1m' },
  iptables: { localhostNodePorts: false },
  conntrack: { tcpBeLiberal: true },
  kubeIPVS: { fallback: 'none', serviceAnnotations: false },
}

const ROWS: ReadonlyMap<string, object> = new Map([
  ...VALUES,
  ['the quick start', QUICK_START],
  ['the configuration of kubeadm', { ...LEAST, config: OF_KUBEADM }],
  ['fields of one mode', { ...LEAST, config: OF_ONE_MODE }],
])

/** What the DaemonSet starts its Pods by, for values with some fields of the configuration changed. */
function podTemplate(values: object, changed: object): unknown {
  const config = Object(valueAt(values, ['config']))
  const { output, error } = render({ ...values, config: { ...config, ...changed } })
  assert.equal(error, '')
  const daemonSet = objectsIn(output).find(({ kind }) => kind === 'DaemonSet')
  const template = valueAt(daemonSet, ['spec', 'template'])
  assert.match(String(valueAt(template, ['metadata', 'annotations', 'checksum/config'])), /^[0-9a-f]{64}$/)
  return template
}

describe('an upgrade of the chart', needsHelm, () => {
  for (const [name, values] of ROWS)
    it(`replaces no Pod for another mode with the values of ${name}`, () => {
      assert.deepEqual(podTemplate(values, { mode: 'iptables' }), podTemplate(values, { mode: 'ipvs' }))
    })

  it('replaces Pods for feature gates that have an effect only', () => {
    const withGates = (featureGates: object) => podTemplate(LEAST, { featureGates })
    const none = withGates({})
    assert.deepEqual(withGates({ WatchListClient: false, SidecarContainers: true }), none)
    assert.notDeepEqual(withGates({ WatchListClient: false, AllowServiceExternalIPs: false }), none)
    assert.notDeepEqual(withGates({ AllBeta: false }), none)
  })

  it('replaces Pods for a field that needs a new process in one mode, in both', () => {
    for (const mode of ['ipvs', 'iptables'])
      for (const changed of [{ ipvs: { scheduler: 'lc' } }, { iptables: { localhostNodePorts: false } }])
        assert.notDeepEqual(podTemplate(LEAST, { mode, ...changed }), podTemplate(LEAST, { mode }))
  })
})
