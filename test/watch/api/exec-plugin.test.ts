import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import {
  ExecLogin,
  type ExecPlugin,
  parseExecPlugin,
  type PluginCall,
  type PluginResult,
} from '../../../src/watch/api/exec-plugin.ts'
import { KubeAccess } from '../../../src/watch/api/kube-config.ts'
import { issueCertificate, makeAuthority } from '../../../dev/api-server/certificate.ts'

const V1 = 'client.authentication.k8s.io/v1'

function plugin(change: object = {}): ExecPlugin {
  return parseExecPlugin({ apiVersion: V1, command: 'login', ...change }, '/etc/kubernetes', undefined)
}

function answer(status: object, change: object = {}): PluginResult {
  const output = JSON.stringify({ apiVersion: V1, kind: 'ExecCredential', status, ...change })
  return { exitCode: 0, output, errorText: '' }
}

/** Runs of plugins that the test ends. */
class Runs {
  readonly calls: PluginCall[] = []
  readonly #ends: ((result: PluginResult | undefined | Error) => void)[] = []
  running = 0
  mostRunning = 0

  readonly run = (call: PluginCall): Promise<PluginResult | undefined> => {
    this.calls.push(call)
    this.running++
    this.mostRunning = Math.max(this.mostRunning, this.running)
    return new Promise((resolve, reject) => {
      this.#ends.push((result) => {
        this.running--
        if (result instanceof Error) reject(result)
        else resolve(result)
      })
    })
  }

  /** Ends the oldest run in progress. */
  async end(result: PluginResult | undefined | Error): Promise<void> {
    // A caller that waited for another run starts its own in the next turn of the event loop.
    await new Promise(setImmediate)
    const end = this.#ends.shift()
    assert.ok(end !== undefined, 'no run is in progress')
    end(result)
    await new Promise(setImmediate)
  }
}

test('ExecLogin runs one plugin for all callers, and keeps its credentials until they expire', async () => {
  const runs = new Runs()
  let nowMs = Date.parse('2026-01-01T00:00:00Z')
  const login = new ExecLogin(runs.run, () => nowMs)
  const waiting = [1, 2, 3].map(() => login.credentials(plugin()))
  await runs.end(answer({ token: 'first', expirationTimestamp: '2026-01-01T00:10:00Z' }))
  assert.deepEqual(
    (await Promise.all(waiting)).map(({ token }) => token),
    ['first', 'first', 'first'],
  )
  nowMs += 600_000
  assert.equal((await login.credentials(plugin())).token, 'first')
  nowMs++
  const renewed = login.credentials(plugin())
  await runs.end(answer({ token: 'second' }))
  assert.equal((await renewed).token, 'second')
  nowMs += 1e12
  assert.equal((await login.credentials(plugin())).token, 'second', 'credentials without a time do not expire')
  assert.equal(runs.calls.length, 2)
})

test('ExecLogin runs the plugin again after a refusal, once for all callers that were refused', async () => {
  const runs = new Runs()
  const login = new ExecLogin(runs.run)
  const first = login.credentials(plugin())
  await runs.end(answer({ token: 'first' }))
  await first
  login.invalidate()
  const second = login.credentials(plugin())
  // Another watch learns only now that the first token was refused.
  login.invalidate()
  const third = login.credentials(plugin())
  await runs.end(answer({ token: 'second' }))
  assert.deepEqual([(await second).token, (await third).token, runs.calls.length], ['second', 'second', 2])
})

test('ExecLogin rejects for all callers after a failure, and retries at the next call', async () => {
  const runs = new Runs()
  const login = new ExecLogin(runs.run)
  const failed = [login.credentials(plugin()), login.credentials(plugin())].map((each) => assert.rejects(each, /hangs/))
  await runs.end(new Error('hangs'))
  await Promise.all(failed)
  const next = login.credentials(plugin())
  await runs.end(answer({ token: 'good' }))
  assert.equal((await next).token, 'good')
})

test('ExecLogin never runs two plugins at a time, even when the kubeconfig changes', async () => {
  const runs = new Runs()
  const login = new ExecLogin(runs.run)
  const old = login.credentials(plugin())
  const changed = [login.credentials(plugin({ command: 'other' })), login.credentials(plugin({ command: 'other' }))]
  await runs.end(answer({ token: 'old' }))
  await runs.end(answer({ token: 'new' }))
  assert.deepEqual(
    (await Promise.all([old, ...changed])).map(({ token }) => token),
    ['old', 'new', 'new'],
  )
  assert.deepEqual([runs.calls.map(({ command }) => command), runs.mostRunning], [['login', 'other'], 1])
})

test('ExecLogin names the error in the output of a plugin, and never quotes that output', async () => {
  const rows: readonly (readonly [result: PluginResult | undefined, message: RegExp])[] = [
    [undefined, /^exec: executable login not found: See the manual\.$/],
    [
      { exitCode: 1, output: 's3cret', errorText: ' no access \n' },
      /^exec: executable login failed with exit code 1: no access$/,
    ],
    [{ exitCode: 0, output: 's3cret', errorText: '' }, /^exec: decoding stdout: .* is not valid JSON$/],
    [answer({ token: 's3cret' }, { kind: 'Secret' }), /it is not an ExecCredential/],
    [
      answer({ token: 's3cret' }, { apiVersion: 'client.authentication.k8s.io/v1beta1' }),
      /configured to use API version .*v1, plugin returned version ".*v1beta1"$/,
    ],
    [answer({}, { status: undefined }), /^exec plugin didn't return a status field$/],
    [answer({}), /^exec plugin didn't return a token or cert\/key pair$/],
    [answer({ clientKeyData: 's3cret' }), /^exec plugin returned only certificate or key, not both$/],
    [answer({ token: { s3cret: 1 } }), /token is not text$/],
    [answer({ token: 's3cret', expirationTimestamp: 'soon' }), /expirationTimestamp is not a time$/],
  ]
  for (const [result, message] of rows) {
    const login = new ExecLogin(async () => result)
    await assert.rejects(login.credentials(plugin({ installHint: 'See the manual.' })), (error) => {
      assert.ok(error instanceof Error)
      assert.match(error.message, message)
      assert.doesNotMatch(error.message, /s3cret/)
      return true
    })
  }
})

async function kubeconfig(t: TestContext, cluster: object, exec: object): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'kube-ipvs-exec-'))
  t.after(() => rm(folder, { recursive: true }))
  const path = join(folder, 'kubeconfig')
  const document = {
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster: { server: 'https://10.0.0.1:6443', ...cluster } }],
    users: [{ name: 'u', user: { exec: { apiVersion: V1, command: 'login', ...exec } } }],
  }
  await writeFile(path, JSON.stringify(document))
  return path
}

test('KubeAccess gives a plugin its environment, and the cluster if it asks for it', async (t) => {
  const { cert } = makeAuthority('ca')
  const caData = Buffer.from(cert).toString('base64')
  const cluster = {
    'certificate-authority-data': caData,
    'tls-server-name': 'api.example',
    'proxy-url': 'http://proxy.example',
    'disable-compression': true,
    extensions: [
      { name: 'other', extension: 1 },
      { name: 'client.authentication.k8s.io/exec', extension: { audience: 'x' } },
    ],
  }
  for (const [change, spec] of [
    [{}, { interactive: false }],
    [
      { provideClusterInfo: true, interactiveMode: 'IfAvailable' },
      {
        cluster: {
          server: 'https://10.0.0.1:6443',
          'tls-server-name': 'api.example',
          'certificate-authority-data': caData,
          'proxy-url': 'http://proxy.example',
          'disable-compression': true,
          config: { audience: 'x' },
        },
        interactive: false,
      },
    ],
  ] as const) {
    const calls: PluginCall[] = []
    const path = await kubeconfig(t, cluster, {
      args: ['--cluster', 'k'],
      env: [{ name: 'REGION', value: 'eu' }],
      apiVersion: 'client.authentication.k8s.io/v1beta1',
      ...change,
    })
    const runPlugin = async (call: PluginCall): Promise<PluginResult> => {
      calls.push(call)
      return answer({ token: 'abc' }, { apiVersion: 'client.authentication.k8s.io/v1beta1' })
    }
    const access = new KubeAccess({ kubeconfig: path, runPlugin })
    assert.deepEqual((await access.access()).headers, { authorization: 'Bearer abc' })
    await access.access()
    assert.equal(calls.length, 1)
    const [call] = calls
    assert.deepEqual([call?.command, call?.args, call?.env['REGION']], ['login', ['--cluster', 'k'], 'eu'])
    assert.deepEqual(JSON.parse(call?.env['KUBERNETES_EXEC_INFO'] ?? ''), {
      kind: 'ExecCredential',
      apiVersion: 'client.authentication.k8s.io/v1beta1',
      spec,
    })
    access.invalidate()
    await access.access()
    assert.equal(calls.length, 2, 'a refusal drops the cached credentials')
  }
})

test('KubeAccess uses the certificate of a plugin, and finds a plugin relative to the kubeconfig', async (t) => {
  const { cert, key } = issueCertificate(makeAuthority('ca'), 'node0')
  const path = await kubeconfig(t, {}, { command: 'bin/login' })
  const calls: string[] = []
  const runPlugin = async ({ command }: PluginCall): Promise<PluginResult> => {
    calls.push(command)
    return answer({ clientCertificateData: cert, clientKeyData: key })
  }
  const { headers, tls } = await new KubeAccess({ kubeconfig: path, runPlugin }).access()
  assert.deepEqual([headers, tls.cert, tls.key], [{}, cert, key])
  assert.deepEqual(calls, [join(path, '../bin/login')])
})
