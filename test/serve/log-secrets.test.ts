import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutSecrets } from '../../src/serve/log-secrets.ts'

const JWT = 'eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl'
const KEY = '-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----'

test('withoutSecrets takes out what looks like a credential', () => {
  for (const line of [
    `"x" err="Authorization: Bearer ${JWT}"`,
    `{"authorization":"Bearer c2VjcmV0LXRva2Vu"}`,
    `err="Basic c2VjcmV0LXRva2Vu"`,
    `token: c2VjcmV0LXRva2Vu`,
    `err="{\\"token\\":\\"c2VjcmV0LXRva2Vu\\"}"`,
    `FLAG: --master="https://user:c2VjcmV0LXRva2Vu@10.0.0.1:6443"`,
    `err="client-key-data: c2VjcmV0LXRva2Vu"`,
    `password=c2VjcmV0LXRva2Vu`,
    KEY,
    JSON.stringify(KEY),
    `some ${JWT} here`,
  ]) {
    const safe = withoutSecrets(line)
    assert.match(safe, /\[redacted\]/, line)
    assert.doesNotMatch(safe, /c2VjcmV0|eyJpc3Mi|MIIEp/, line)
  }
})

test('withoutSecrets leaves ordinary lines as they are', () => {
  for (const line of [
    '"Successfully retrieved NodeIPs" NodeIPs=["10.9.2.15"]',
    'err="open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory"',
    'err="Get \\"https://10.9.2.2:16444/api/v1/nodes\\": connection refused"',
    'err="401 Unauthorized: the token has expired"',
    'object="demo/basic auth" name="tokens@demo"',
  ])
    assert.equal(withoutSecrets(line), line)
})

/** The shortest of several times, in milliseconds: what else runs on the machine only adds to the others. */
function shortestMs(line: string): number {
  const times = Array.from({ length: 7 }, () => {
    const startedAt = performance.now()
    withoutSecrets(line)
    return performance.now() - startedAt
  })
  return Math.min(...times)
}

test('withoutSecrets takes time in proportion to the line', () => {
  for (const unit of [
    'bearer ',
    'eyJ',
    'eyJ-',
    'eyJ.',
    '://a',
    '-----BEGIN PRIVATE KEY-----',
    'token:',
    'token-',
    'a',
  ]) {
    const line = unit.repeat(6000 / unit.length)
    const [short, long] = [shortestMs(line), shortestMs(line.repeat(20))]
    // 20 times as long: a pattern that starts over at each character would take 400 times as long.
    assert.ok(long < 100 * short + 1, `${unit}: ${short} ms, then ${long} ms`)
  }
})
