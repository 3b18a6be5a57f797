import assert from 'node:assert/strict'
import { test } from 'node:test'
import { failureText } from '../../src/cli/messages.ts'
import { nextStep } from '../../src/start/next-step.ts'
import { CodedError } from '../../src/values/errors.ts'

test('failureText names the flag or the field that an error is about', () => {
  const rows: readonly (readonly [code: string, message: string, config: string | undefined, text: string])[] = [
    [
      'config-unreadable',
      'failed complete: open /x: no such file or directory',
      '/x',
      '--config /x: no such file or directory',
    ],
    ['config-unreadable', 'failed complete: read /x: is a directory', '/x', '--config /x: is a directory'],
    ['config-decode', 'failed complete: failed to decode: bad', 'c.yaml', '--config c.yaml: failed to decode: bad'],
    ['config-invalid', 'failed validate: KubeProxyConfiguration.X: bad', undefined, 'KubeProxyConfiguration.X: bad'],
    ['kubeconfig', 'stat /k: no such file or directory', undefined, 'kubeconfig: stat /k: no such file or directory'],
    ['ipvs-missing', 'the kernel has no IPVS', '/x', 'the kernel has no IPVS'],
  ]
  for (const [code, message, config, text] of rows)
    assert.equal(failureText(new CodedError(code, message), config === undefined ? {} : { config }), text)
  assert.match(failureText(new Error('a mistake of ours'), {}), /a mistake of ours\n +at /)
})

test('nextStep names what helps where the message does not', () => {
  const step = (code: string): string | undefined => nextStep(new CodedError(code, ''))
  assert.match(step('EPERM') ?? '', /root, or the capability NET_ADMIN/)
  assert.match(step('no-api-server') ?? '', /--config or --kubeconfig, .* --manifests/)
  assert.match(step('kubeconfig') ?? '', /--kubeconfig/)
  assert.match(step('config-unreadable') ?? '', /--config/)
  assert.equal(step('ipvs-missing'), undefined)
  assert.equal(nextStep(new CodedError('config-decode', '', { advice: 'Do this.' })), 'Do this.')
  assert.equal(nextStep(new Error('x')), undefined)
})
