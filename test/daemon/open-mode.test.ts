import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfiguration } from '../../src/config/load.ts'
import type { Mode, ModeOptions } from '../../src/modes/mode.ts'
import { openMode } from '../../src/daemon/open-mode.ts'
import { ProblemLog } from '../../src/serve/problem-log.ts'
import { CodedError } from '../../src/values/errors.ts'
import { recordingLog } from '../support/recording-log.ts'

function world(more: object, failure?: Error) {
  const header = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration' }
  const result = loadConfiguration(JSON.stringify({ ...header, ...more }), 'test')
  if ('errors' in result) throw new Error(JSON.stringify(result.errors))
  const { configuration } = result
  const log = recordingLog()
  const options: ModeOptions = {
    configuration: () => configuration,
    nodeName: 'node0',
    problems: new ProblemLog(log),
    log,
    now: () => 0,
    listener: {
      partPassed: () => undefined,
      postponedReady: () => undefined,
      flowsRemoved: () => undefined,
      outliersJudged: () => undefined,
      ipvsLost: () => undefined,
    },
  }
  const opened: string[] = []
  const mode = (name: Mode['name']): Mode => ({ name }) as Mode // only its name is read
  const openers = {
    ipvs: async () => {
      opened.push('ipvs')
      if (failure !== undefined) throw failure
      return mode('ipvs')
    },
    iptables: async (_: ModeOptions, isFallback: boolean) => {
      opened.push(isFallback ? 'iptables in its place' : 'iptables')
      return mode('iptables')
    },
  }
  const warnings = () => log.lines.filter(({ level }) => level === 'warn')
  const open = (mayFallBack?: boolean) => openMode(options, { mayFallBack, openers })
  return { open, opened, warnings }
}

test('openMode opens the configured mode and warns of nothing', async () => {
  for (const name of ['ipvs', 'iptables'] as const) {
    const { open, opened, warnings } = world({ mode: name })
    const { mode, fallback } = await open()
    assert.deepEqual([mode.name, fallback, opened, warnings()], [name, undefined, [name], []])
  }
})

for (const [code, remedied] of [
  ['ipvs-missing', /^load it with "modprobe ip_vs"/],
  ['ipset-missing', /^load it with "modprobe ip_set"/],
  ['set-match-missing', /^load it with "modprobe xt_set"/],
  ['ipvs-conntrack-off', /^run "kube-ipvs --init-only" .*"sysctl -w net\.ipv4\.vs\.conntrack=1" on the node$/],
] as const)
  test(`openMode falls back to iptables mode with one warning for ${code}`, async () => {
    const { open, opened, warnings } = world({ mode: 'ipvs' }, new CodedError(code, 'not there'))
    const { mode, fallback } = await open()
    assert.equal(mode.name, 'iptables')
    assert.deepEqual(opened, ['ipvs', 'iptables in its place'])
    assert.equal(fallback?.reason, code)
    assert.match(fallback?.remedy ?? '', remedied)
    assert.deepEqual(
      warnings().map(({ message, fields }) => [message, fields['reason']]),
      [['Falling back to iptables mode', code]],
    )
  })

test('openMode rejects with the error of ipvs mode when kubeIPVS.fallback is none', async () => {
  const { open, opened, warnings } = world(
    { mode: 'ipvs', kubeIPVS: { fallback: 'none' } },
    new CodedError('ipvs-missing', 'not there'),
  )
  await assert.rejects(open(), { code: 'ipvs-missing' })
  assert.deepEqual([opened, warnings()], [['ipvs'], []])
})

test('openMode rejects with errors that iptables mode would have too', async () => {
  for (const code of ['iptables-missing', 'EPERM', 'native-unavailable', 'module-missing']) {
    const { open, opened } = world({ mode: 'ipvs' }, new CodedError(code, 'no'))
    await assert.rejects(open(), { code })
    assert.deepEqual(opened, ['ipvs'])
  }
})

test('openMode opens no other mode, and warns of none, where it may not fall back', async () => {
  const { open, opened, warnings } = world({ mode: 'ipvs' }, new CodedError('nftables-missing', 'not there'))
  await assert.rejects(open(false), { code: 'nftables-missing' })
  assert.deepEqual([opened, warnings()], [['ipvs'], []])
})
