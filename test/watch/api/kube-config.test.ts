import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { execPluginRunner } from '../../../src/daemon/sources.ts'
import { CodedError } from '../../../src/values/errors.ts'
import { KubeAccess } from '../../../src/watch/api/kube-config.ts'
import { issueCertificate, makeAuthority } from '../../../dev/api-server/certificate.ts'

async function folder(t: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'kube-ipvs-kubeconfig-'))
  t.after(() => rm(path, { recursive: true }))
  return path
}

function kubeconfig(cluster: object, user: object): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster: { server: 'https://10.0.0.1:6443', ...cluster } }],
    users: [{ name: 'u', user }],
  })
}

test('KubeAccess reads tokenFile, which kubeadm writes, relative to the kubeconfig', async (t) => {
  const dir = await folder(t)
  const path = join(dir, 'kubeconfig.conf')
  await writeFile(join(dir, 'token'), 'abc\n')
  await writeFile(path, kubeconfig({}, { tokenFile: 'token', token: 'not this' }))
  const access = await new KubeAccess({ kubeconfig: path }).access()
  assert.equal(access.server, 'https://10.0.0.1:6443')
  assert.deepEqual(access.headers, { authorization: 'Bearer abc' })
})

test('KubeAccess knows no auth providers by names that every object has', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  for (const name of ['constructor', 'toString', '__proto__']) {
    await writeFile(path, kubeconfig({}, { token: 'abc', 'auth-provider': { name } }))
    const access = await new KubeAccess({ kubeconfig: path }).access()
    assert.deepEqual(access.headers, { authorization: 'Bearer abc' }, name)
  }
})

test('KubeAccess prints nothing of a kubeconfig whose keys are objects', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  await writeFile(path, `${kubeconfig({}, { token: 'abc' }).replace(/}$/, '')}, ? {token: secret} : 1}`)
  const warnings: string[] = []
  const listen = (warning: Error): void => void warnings.push(warning.message)
  process.on('warning', listen)
  t.after(() => process.off('warning', listen))
  await new KubeAccess({ kubeconfig: path }).access()
  await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(warnings, [])
})

test('KubeAccess waits for a file that hangs without holding the event loop', async (t) => {
  const dir = await folder(t)
  const path = join(dir, 'kubeconfig.conf')
  const { cert } = makeAuthority('ca')
  // Reading a FIFO waits for a writer, as reading from a network file system may wait for its server.
  for (const name of ['token', 'ca']) execFileSync('mkfifo', [join(dir, name)])
  await writeFile(path, kubeconfig({ 'certificate-authority': 'ca' }, { tokenFile: 'token' }))
  const pending = new KubeAccess({ kubeconfig: path }).access()
  let turns = 0
  while (turns < 100) await new Promise<void>((resolve) => setImmediate(() => resolve(void turns++)))
  await Promise.all([writeFile(join(dir, 'token'), 'abc'), writeFile(join(dir, 'ca'), cert)])
  const { headers, tls } = await pending
  assert.deepEqual(headers, { authorization: 'Bearer abc' })
  assert.equal(String(tls.ca), String(cert))
})

test('KubeAccess sets the header of each kind of credentials', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: '/bin/sh',
    args: [
      '-c',
      `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-exec"}}'`,
    ],
  }
  const rows: [object, object][] = [
    [{ token: 'abc' }, { authorization: 'Bearer abc' }],
    [{ username: 'a', password: 'b' }, { authorization: `Basic ${Buffer.from('a:b').toString('base64')}` }],
    [{ exec }, { authorization: 'Bearer from-exec' }],
    [{ exec, token: 'abc' }, { authorization: 'Bearer abc' }],
    [
      { token: 'abc', as: 'other' },
      { authorization: 'Bearer abc', 'impersonate-user': 'other' },
    ],
    [{}, {}],
  ]
  for (const [user, headers] of rows) {
    await writeFile(path, kubeconfig({}, user))
    const access = new KubeAccess({ kubeconfig: path, runPlugin: execPluginRunner() })
    assert.deepEqual((await access.access()).headers, headers)
  }
})

test('KubeAccess reads a rotated token after the old one was refused', async (t) => {
  const dir = await folder(t)
  const path = join(dir, 'kubeconfig.conf')
  await writeFile(join(dir, 'token'), 'old')
  await writeFile(path, kubeconfig({}, { tokenFile: 'token' }))
  const access = new KubeAccess({ kubeconfig: path })
  assert.equal((await access.access()).headers['authorization'], 'Bearer old')
  await writeFile(join(dir, 'token'), 'new')
  access.invalidate()
  assert.equal((await access.access()).headers['authorization'], 'Bearer new')
})

test('KubeAccess reads a changed kubeconfig, and keeps the last one while the file is missing', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  await writeFile(path, kubeconfig({}, { token: 'one' }))
  const access = new KubeAccess({ kubeconfig: path })
  assert.equal((await access.access()).headers['authorization'], 'Bearer one')
  await writeFile(path, kubeconfig({}, { token: 'two' }))
  assert.equal((await access.access()).headers['authorization'], 'Bearer two')
  await rm(path)
  assert.equal((await access.access()).headers['authorization'], 'Bearer two')
})

test('KubeAccess reads certificates again for each request', async (t) => {
  const dir = await folder(t)
  const path = join(dir, 'kubeconfig.conf')
  const authority = makeAuthority('ca')
  const first = issueCertificate(authority, 'first')
  const second = issueCertificate(authority, 'second')
  await writeFile(
    path,
    kubeconfig(
      { 'certificate-authority-data': Buffer.from(authority.cert).toString('base64') },
      { 'client-certificate': 'cert', 'client-key': 'key' },
    ),
  )
  const access = new KubeAccess({ kubeconfig: path })
  for (const { cert, key } of [first, second]) {
    await writeFile(join(dir, 'cert'), cert)
    await writeFile(join(dir, 'key'), key)
    const { tls } = await access.access()
    assert.equal(String(tls.cert), cert)
    assert.equal(String(tls.key), key)
    assert.equal(String(tls.ca), authority.cert)
  }
})

test('KubeAccess uses --master instead of the server, and accepts plain http', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  await writeFile(path, kubeconfig({}, { token: 'abc' }))
  const rows: [object, string][] = [
    [{ kubeconfig: path, master: 'http://127.0.0.1:8080' }, 'http://127.0.0.1:8080'],
    [{ kubeconfig: path, master: '10.0.0.9:6443' }, 'https://10.0.0.9:6443'],
    [{ master: 'http://127.0.0.1:8080/' }, 'http://127.0.0.1:8080'],
    [{ kubeconfig: path, master: '' }, 'https://10.0.0.1:6443'],
  ]
  for (const [options, server] of rows) assert.equal((await new KubeAccess(options).access()).server, server)
})

test('KubeAccess reads whether answers may be compressed', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  for (const [cluster, disableCompression] of [
    [{}, false],
    [{ 'disable-compression': false }, false],
    [{ 'disable-compression': true }, true],
  ] as const) {
    await writeFile(path, kubeconfig(cluster, {}))
    assert.equal((await new KubeAccess({ kubeconfig: path }).access()).disableCompression, disableCompression)
  }
  await writeFile(path, kubeconfig({ 'disable-compression': 'yes' }, {}))
  await assert.rejects(new KubeAccess({ kubeconfig: path }).access(), {
    code: 'kubeconfig',
    message: `${path}: clusters["k"].cluster.disable-compression: must be a boolean, not "yes"`,
  })
})

test('KubeAccess applies the certificate authority even without a user', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  const { cert } = makeAuthority('ca')
  const data = Buffer.from(cert).toString('base64')
  const text = kubeconfig({ 'certificate-authority-data': data }, {}).replace(',"user":"u"', '')
  await writeFile(path, text)
  assert.equal(String((await new KubeAccess({ kubeconfig: path }).access()).tls.ca), cert)
})

test('KubeAccess names file and field in errors, and no secret', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  const secret = 'c2VjcmV0LXRva2Vu'
  const { cert } = makeAuthority('ca')
  const other = issueCertificate(makeAuthority('x'), 'other')
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const plugin = (change: object): string =>
    kubeconfig({}, { exec: { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/sh', ...change } })
  const rows: [string, RegExp][] = [
    ['[]', /must hold one object/],
    ['{clusters: []}', /current-context/],
    [kubeconfig({ server: '' }, { token: secret }), /clusters\["k"\]\.cluster\.server is missing/],
    [kubeconfig({ server: 'ftp://x' }, { token: secret }), /server: "ftp:\/\/x"/],
    [kubeconfig({}, {}).replace('"cluster":"k"', '"cluster":"z"'), /contexts\["c"\]\.context\.cluster/],
    [kubeconfig({}, {}).replace('"user":"u"', '"user":"z"'), /contexts\["c"\]\.context\.user/],
    [kubeconfig({ 'certificate-authority': 'no-such-file' }, {}), /no-such-file/],
    [kubeconfig({ 'certificate-authority-data': base64('nonsense') }, {}), /certificate-authority: /],
    [
      kubeconfig({}, { 'client-certificate-data': base64('x'), 'client-key-data': base64(secret) }),
      /client-certificate: /,
    ],
    [kubeconfig({}, { 'client-key-data': base64(secret) }), /client-key: /],
    [
      kubeconfig({}, { 'client-certificate-data': base64(cert), 'client-key-data': base64(other.key) }),
      /client-certificate and client-key: /,
    ],
    [kubeconfig({}, { tokenFile: 'no-such-token' }), /user "u": .*no-such-token/],
    [plugin({ args: ['-c', `echo ${secret}`] }), /user "u": exec: decoding stdout: .* is not valid JSON/],
    [plugin({ args: ['-c', `echo '"${secret}"'`] }), /user "u": exec: decoding stdout: it is not an ExecCredential/],
    [plugin({ args: ['-c', 'echo problem >&2; exit 3'] }), /executable \/bin\/sh failed with exit code 3: problem$/],
    [plugin({ command: 'no-such-plugin' }), /exec: executable no-such-plugin not found$/],
    [
      plugin({ command: './no-such-plugin', installHint: 'Get it.' }),
      /executable .*\/no-such-plugin not found: Get it\.$/,
    ],
    [plugin({ command: '' }), /command must be specified/],
    [plugin({ apiVersion: undefined }), /exec plugin: invalid apiVersion nothing/],
    [plugin({ apiVersion: 'client.authentication.k8s.io/v1alpha1' }), /exec plugin: invalid apiVersion/],
    [plugin({ interactiveMode: 'Always' }), /standard input is not a terminal/],
    [plugin({ interactiveMode: 'Sometimes' }), /invalid interactiveMode: "Sometimes"/],
    [plugin({ args: 'x' }), /exec: args must be a list/],
    [plugin({ env: [{ value: 'x' }] }), /env variable name must be specified/],
    [kubeconfig({}, { 'auth-provider': { name: 'gcp' } }), /The gcp auth plugin has been removed/],
    [kubeconfig({}, { 'auth-provider': { name: 'azure' } }), /The azure auth plugin has been removed/],
    [kubeconfig({ 'certificate-authority': 5 }, {}), /must be of type string/],
    [kubeconfig({}, { 'client-key': {}, 'client-certificate': [] }), /must be of type string/],
    [`a: [${'&a 1, *a, '.repeat(1001)}]`, /more than 1000 aliases$/],
    [
      kubeconfig({}, { 'auth-provider': { name: 'x', config: { exec: { command: 'true' } } } }),
      /no Auth Provider found/,
    ],
    [
      kubeconfig({ 'insecure-skip-tls-verify': true, 'certificate-authority-data': base64(cert) }, {}),
      /specifying a root certificates file with the insecure flag is not allowed/,
    ],
    [
      kubeconfig({ 'insecure-skip-tls-verify': true, 'certificate-authority': 'ca.crt' }, {}),
      /specifying a root certificates file with the insecure flag is not allowed/,
    ],
  ]
  for (const [text, reason] of rows) {
    await writeFile(path, text)
    await assert.rejects(new KubeAccess({ kubeconfig: path, runPlugin: execPluginRunner() }).access(), (error) => {
      assert.ok(error instanceof CodedError)
      assert.equal(error.code, 'kubeconfig')
      assert.match(error.message, reason)
      assert.ok(error.message.startsWith(path), error.message)
      assert.ok(!error.message.includes(secret) && !error.message.includes(other.key), error.message)
      return true
    })
  }
})

test('KubeAccess checks its configuration at the start, with the messages of client-go', async (t) => {
  const dir = await folder(t)
  const path = join(dir, 'kubeconfig.conf')
  const secret = 'c2VjcmV0LXRva2Vu'
  const none =
    'invalid configuration: no configuration has been provided, try setting KUBERNETES_MASTER environment variable'
  const rows: [text: string, message: string | RegExp][] = [
    ['', none],
    ['{}', none],
    [
      `users:\n- user: {token: ${secret}: }\n`,
      /^error loading config file ".*kubeconfig\.conf": yaml: line 2: (?!.*c2Vj)/,
    ],
  ]
  for (const [text, message] of rows) {
    await writeFile(path, text)
    await assert.rejects(new KubeAccess({ kubeconfig: path }).check(), { code: 'kubeconfig', message })
  }
  await assert.rejects(new KubeAccess({ kubeconfig: join(dir, 'none') }).check(), {
    message: `stat ${dir}/none: no such file or directory`,
  })
  // The token of a user may be written later.
  await writeFile(path, kubeconfig({}, { tokenFile: 'no-such-token' }))
  await new KubeAccess({ kubeconfig: path }).check()
  const before = { ...process.env }
  process.env['KUBERNETES_SERVICE_HOST'] = '10.96.0.1'
  process.env['KUBERNETES_SERVICE_PORT'] = '443'
  t.after(() => {
    process.env = before
  })
  await assert.rejects(new KubeAccess({ serviceAccountRoot: dir }).check(), {
    message: 'open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory',
  })
})

test('KubeAccess without any configuration names the variables to set', async (t) => {
  const { KUBERNETES_SERVICE_HOST: host } = process.env
  delete process.env['KUBERNETES_SERVICE_HOST']
  t.after(() => {
    if (host !== undefined) process.env['KUBERNETES_SERVICE_HOST'] = host
  })
  await assert.rejects(new KubeAccess({}).access(), {
    code: 'no-api-server',
    message:
      'unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined',
  })
})

test('KubeAccess finds the service account of a pod', async (t) => {
  const root = await folder(t)
  const account = join(root, 'var/run/secrets/kubernetes.io/serviceaccount')
  const { mkdir } = await import('node:fs/promises')
  await mkdir(account, { recursive: true })
  const { cert } = makeAuthority('ca')
  await writeFile(join(account, 'ca.crt'), cert)
  await writeFile(join(account, 'token'), 'pod-token\n')
  const before = { ...process.env }
  process.env['KUBERNETES_SERVICE_HOST'] = 'fd00::1'
  process.env['KUBERNETES_SERVICE_PORT'] = '443'
  t.after(() => {
    process.env = before
  })
  const access = await new KubeAccess({ serviceAccountRoot: root }).access()
  assert.equal(access.server, 'https://[fd00::1]:443')
  for (const port of ['80', '8080', '8001']) {
    process.env['KUBERNETES_SERVICE_PORT'] = port
    assert.equal((await new KubeAccess({ serviceAccountRoot: root }).access()).server, `https://[fd00::1]:${port}`)
  }
  assert.deepEqual(access.headers, { authorization: 'Bearer pod-token' })
  assert.equal(String(access.tls.ca), cert)
})

test('KubeAccess needs nothing of entries that the current context does not use', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  const complete = JSON.parse(kubeconfig({}, { token: 'abc' })) as Record<'contexts' | 'clusters' | 'users', object[]> // as written above
  await writeFile(
    path,
    JSON.stringify({
      ...complete,
      contexts: [{ name: 'x', context: { namespace: 'y' } }, ...complete.contexts],
      clusters: [{ name: 'empty', cluster: {} }, ...complete.clusters],
      users: [{}, ...complete.users],
    }),
  )
  assert.equal((await new KubeAccess({ kubeconfig: path }).access()).server, 'https://10.0.0.1:6443')
  await writeFile(path, kubeconfig({ server: undefined }, { token: 'abc' }))
  const mastered = new KubeAccess({ kubeconfig: path, master: 'https://192.0.2.1' })
  assert.equal((await mastered.access()).server, 'https://192.0.2.1')
  const refused = new KubeAccess({ kubeconfig: path })
  await assert.rejects(refused.check(), {
    code: 'kubeconfig',
    message: `${path}: clusters["k"].cluster.server is missing`,
  })
  await writeFile(path, JSON.stringify({ ...complete, contexts: [{ name: 'c', context: {} }] }))
  await assert.rejects(refused.check(), { message: `${path}: contexts["c"].context.cluster is missing` })
})

test('KubeAccess takes an empty proxy-url as none, and refuses those that cannot be used', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  const access = new KubeAccess({ kubeconfig: path })
  for (const url of ['', null]) {
    await writeFile(path, kubeconfig({ 'proxy-url': url }, {}))
    assert.equal((await access.access()).proxyUrl, undefined)
    assert.equal((await access.urls()).proxyUrl, undefined)
  }
  await writeFile(path, kubeconfig({ 'proxy-url': 'http://proxy.example:3128' }, {}))
  assert.equal((await access.access()).proxyUrl, 'http://proxy.example:3128')
  const rows: readonly (readonly [url: unknown, message: RegExp])[] = [
    ['socks5://me:secret@proxy.example', /clusters\["k"\]\.cluster\.proxy-url: only http and https .*, not "socks5"$/],
    ['proxy.example', /clusters\["k"\]\.cluster\.proxy-url: is not a URL$/],
    [5, /clusters\["k"\]\.cluster\.proxy-url: is not a URL$/],
  ]
  for (const [url, message] of rows) {
    await writeFile(path, kubeconfig({ 'proxy-url': url }, {}))
    await assert.rejects(new KubeAccess({ kubeconfig: path }).check(), { code: 'kubeconfig', message })
  }
})

test('KubeAccess refuses an impersonation that would be another one', async (t) => {
  const path = join(await folder(t), 'kubeconfig.conf')
  for (const [field, value] of [
    ['as-groups', ['system:masters']],
    ['as-uid', '5'],
    ['as-user-extra', { scopes: ['view'] }],
  ] as const) {
    await writeFile(path, kubeconfig({}, { token: 'abc', as: 'other', [field]: value }))
    const message = `${path}: users["u"].user.${field}: is not supported; only "as" is`
    await assert.rejects(new KubeAccess({ kubeconfig: path }).check(), { message })
  }
  await writeFile(path, kubeconfig({}, { token: 'abc', as: 'other', 'as-groups': [] }))
  await new KubeAccess({ kubeconfig: path }).check()
})

test('KubeAccess names the variable of a pod that is no host or no port', async (t) => {
  const before = { ...process.env }
  t.after(() => {
    for (const name of ['KUBERNETES_SERVICE_HOST', 'KUBERNETES_SERVICE_PORT'])
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
  })
  const rows: readonly (readonly [host: string, port: string, message: RegExp])[] = [
    ['10.0.0.1:6443', '443', /KUBERNETES_SERVICE_HOST: "10\.0\.0\.1:6443" is not a host/],
    ['https://10.0.0.1', '443', /KUBERNETES_SERVICE_HOST: "https:/],
    ['10.0.0.1', '6443/x', /KUBERNETES_SERVICE_PORT: "6443\/x" is not a port/],
    ['10.0.0.1', '99999', /KUBERNETES_SERVICE_PORT: "99999" is not a port/],
  ]
  for (const [host, port, message] of rows) {
    Object.assign(process.env, { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port })
    await assert.rejects(new KubeAccess({}).check(), { code: 'kubeconfig', message })
  }
  for (const host of ['fd00::1', '[fd00::1]']) {
    Object.assign(process.env, { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: '443' })
    assert.equal((await new KubeAccess({}).urls()).server, 'https://[fd00::1]:443')
  }
})
