/** Capabilities as /proc/self/status shows them. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { capabilityMissing, hasCapability } from '../../src/node/capabilities.ts'

const root = mkdtempSync(join(tmpdir(), 'kube-ipvs-proc-'))
after(() => rmSync(root, { recursive: true }))

test('hasCapability reads the capabilities that are in effect', () => {
  mkdirSync(join(root, 'proc/self'), { recursive: true })
  const rows = [
    ['CapPrm:\t000001ffffffffff\nCapEff:\t000001ffffffffff\n', [true, true]],
    ['CapPrm:\t0000000000003000\nCapEff:\t0000000000003000\n', [true, true]],
    ['CapPrm:\t0000000000003000\nCapEff:\t0000000000001000\n', [true, false]],
    ['CapEff:\t0000000000002000\n', [false, true]],
    ['CapEff:\t0000000000000000\n', [false, false]],
  ] as const
  for (const [text, expected] of rows) {
    writeFileSync(join(root, 'proc/self/status'), text)
    assert.deepEqual([hasCapability('NET_ADMIN', root), hasCapability('NET_RAW', root)], expected, text)
  }
})

test('hasCapability takes a capability for present where /proc does not tell', () => {
  assert.equal(hasCapability('NET_ADMIN', join(root, 'nothing')), true)
})

test('capabilityMissing says what needs the capability and how to give it, in one sentence', () => {
  assert.equal(
    capabilityMissing('NET_ADMIN', "writing the kernel's tables").message,
    "writing the kernel's tables takes the capability NET_ADMIN, which this process does not have: run it as root; in a Pod, as user 0 with NET_ADMIN in securityContext.capabilities.add",
  )
})
