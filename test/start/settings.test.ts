/** What commands learn from the command line and the file of --config. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { parseCommandLine } from '../../src/start/command-line.ts'
import { cleanupSettings, loadSettings } from '../../src/start/settings.ts'
import { formatProblem } from '../../src/values/errors.ts'

const HEAD = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n'

function fileWith(t: TestContext, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-settings-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'c.yaml')
  writeFileSync(file, text)
  return file
}

async function load(...words: readonly string[]) {
  const line = parseCommandLine(words)
  assert.ok('flags' in line)
  return loadSettings(line.flags)
}

test('loadSettings names the flags that have no effect beside --config, and only those', async (t) => {
  const file = fileWith(t, `${HEAD}mode: ipvs\n`)
  const warned = async (...words: readonly string[]): Promise<readonly string[]> =>
    (await load(...words)).warnings.map(formatProblem)
  const none = 'command line: with --config these flags have no effect:'
  assert.deepEqual(await warned('--config', file, '--cluster-cidr=10.0.0.0/8', '--proxy-mode', 'iptables'), [
    `${none} --proxy-mode, --cluster-cidr`,
  ])
  assert.deepEqual(await warned('--config', file, '--kubeconfig=/x', '--healthz-port=0'), [
    `${none} --kubeconfig, --healthz-port`,
  ])
  const counting = [
    '--hostname-override=a',
    '--master=http://x',
    '-v=2',
    '--vmodule=a=1',
    '--socket=',
    '--fallback=none',
  ]
  assert.deepEqual(await warned('--config', file, ...counting, '--drain-deadline=1s', '--once'), [])
  assert.deepEqual(await warned('--cluster-cidr=10.0.0.0/8', '--proxy-mode=ipvs'), [])
})

test('loadSettings rejects with what to do about a file of another form', async (t) => {
  const file = fileWith(t, 'apiVersion: v1\nkind: ConfigMap\ndata: {}\n')
  await assert.rejects(load('--config', file), { code: 'config-decode', advice: /^The file is the ConfigMap/ })
})

test('the gate KubeProxyIPVS refuses a start in ipvs mode with its name, and no cleanup', async (t) => {
  const file = fileWith(
    t,
    `${HEAD}mode: ipvs\nfeatureGates: {KubeProxyIPVS: false}\nipvs: {excludeCIDRs: [192.0.2.0/24]}\n`,
  )
  await assert.rejects(load('--config', file), {
    code: 'config-invalid',
    advice: /^The feature gate KubeProxyIPVS is false,/,
  })
  const line = parseCommandLine(['cleanup', '--config', file])
  assert.ok('flags' in line)
  assert.deepEqual((await cleanupSettings(line.flags)).ipvs.excludeCIDRs, ['192.0.2.0/24'])
  const wrong = fileWith(t, `${HEAD}mode: bogus\n`)
  const other = parseCommandLine(['cleanup', '--config', wrong])
  assert.ok('flags' in other)
  await assert.rejects(cleanupSettings(other.flags), { code: 'config-invalid' })
})
