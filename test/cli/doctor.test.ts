/**
 * `kube-ipvs doctor` as a process: exit codes, one JSON value, one line for a mistake, and nothing
 * secret in a bundle.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { withDaemonsChoices } from '../../src/cli/doctor.ts'
import { writeBundle } from '../../src/doctor/bundle.ts'
import type { NodeFacts } from '../../src/doctor/facts.ts'
import { deadline } from '../support/deadline.ts'
import { MAIN } from '../support/own-program.ts'
import { node, running } from '../doctor/healthy-node.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-doctor-'))
after(() => rmSync(folder, { recursive: true, force: true }))

function doctor(...args: readonly string[]) {
  const env = { ...process.env, SECRET: 'in-the-environment', FORCE_COLOR: undefined }
  const options = { encoding: 'utf8', timeout: deadline(120_000), env } as const
  return spawnSync(process.execPath, [MAIN, 'doctor', ...args], options)
}

it('doctor exits with the worst finding of a bundle', async () => {
  const rows: readonly (readonly [name: string, facts: NodeFacts, code: number, first: string])[] = [
    ['fine', node(), 0, 'Node node7 is fine.'],
    ['note', node({ netAdmin: false }), 0, 'Node node7 is fine: 1 note.'],
    ['warning', node(running('firewalld')), 1, 'Node node7 may not be fine: 1 warning.'],
    ['error', node(running('kube-proxy')), 2, 'Node node7 is not fine: 1 error.'],
  ]
  for (const [name, facts, code, first] of rows) {
    const path = join(folder, `${name}.json`)
    await writeBundle(path, facts)
    const { status, stdout, stderr } = doctor('--from', path)
    assert.deepEqual([status, stdout.split('\n')[0], stderr], [code, first, ''], name)
    const json = doctor('--from', path, '--output', 'json')
    assert.equal(json.status, code)
    const { severity } = JSON.parse(json.stdout) as { readonly severity: string } // what our own program prints
    assert.equal(severity, name === 'fine' ? 'ok' : name)
  }
})

it('doctor exits with 3 and one line for a bundle or file that it cannot use', () => {
  const path = join(folder, 'bad.json')
  writeFileSync(path, '{"format":"1"}')
  const rows: readonly (readonly [args: readonly string[], line: RegExp])[] = [
    [['--from', path], /^kube-ipvs doctor: --from \S+: format is not a number\n$/],
    [['--from', folder], /^kube-ipvs doctor: --from \S+: not a file\n$/],
    [['--config', '/nowhere'], /^kube-ipvs doctor: --config \/nowhere: no such file or directory\n/],
    [['--bundle', path], /^kube-ipvs doctor: --bundle: EEXIST/],
  ]
  for (const [args, line] of rows) {
    const { status, stdout, stderr } = doctor(...args)
    assert.deepEqual([status, stdout], [3, ''], args.join(' '))
    assert.match(stderr, line)
  }
})

it('doctor writes no credential, environment or content of a kubeconfig into a bundle', () => {
  const kubeconfig = join(folder, 'kubeconfig')
  const document = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server: 'http://127.0.0.1:1' } }],
    users: [{ name: 'u', user: { token: 'in-the-token' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  writeFileSync(kubeconfig, JSON.stringify(document))
  const path = join(folder, 'here.json')
  const { status, stderr } = doctor('--kubeconfig', kubeconfig, '--bundle', path, '--output', 'json')
  assert.ok(status !== null && status <= 2, stderr)
  assert.match(stderr, /^kube-ipvs doctor: wrote \S+; it has addresses of this node, and no credentials\n$/)
  const text = readFileSync(path, 'utf8')
  assert.doesNotMatch(text, /in-the-(token|environment)/)
  const { apiServer } = JSON.parse(text) as { apiServer: unknown }
  const expected = { server: 'http://127.0.0.1:1', code: 'ECONNREFUSED', reason: 'connect ECONNREFUSED 127.0.0.1:1' }
  assert.deepEqual(apiServer, { ...expected, place: 'here' })
})

it('doctor without a file checks for what the daemon is configured for, and flags precede', () => {
  const daemon = {
    configuredMode: 'ipvs',
    virtualAddresses: 'routes',
    settings: {
      clusterCIDR: '',
      scheduler: 'wlc',
      strictARP: true,
      excludeCIDRs: ['192.0.2.10/32'],
      fallback: 'none',
      serviceAnnotations: true,
    },
  } as const
  const chosen = {
    mode: 'ipvs',
    'ipvs.scheduler': 'wlc',
    'ipvs.strictARP': true,
    'ipvs.excludeCIDRs': ['192.0.2.10/32'],
    'kubeIPVS.fallback': 'none',
    'kubeIPVS.virtualAddresses': 'routes',
  }
  assert.deepEqual(withDaemonsChoices({}, daemon), chosen)
  assert.deepEqual(withDaemonsChoices({ 'ipvs.strictARP': false }, daemon), { ...chosen, 'ipvs.strictARP': false })
  assert.deepEqual(withDaemonsChoices({ config: '/x.yaml' }, daemon), { config: '/x.yaml' })
})
