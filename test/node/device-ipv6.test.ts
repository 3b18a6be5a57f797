import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, it, test } from 'node:test'
import { haveNewDevicesNoIpv6, ipv6Lack, switchOnIpv6 } from '../../src/node/device-ipv6.ts'
import { CodedError } from '../../src/values/errors.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kube-ipvs-ipv6-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const fileOf = (name: string): string => join(root, 'proc/sys/net/ipv6/conf', name, 'disable_ipv6')
function set(values: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(values)) {
    mkdirSync(dirname(fileOf(name)), { recursive: true })
    writeFileSync(fileOf(name), `${value}\n`)
  }
}
const valueOf = (name: string): string => readFileSync(fileOf(name), 'utf8').trim()

describe('switchOnIpv6', () => {
  it('writes 0 where it is off for the device alone, and tells of it', () => {
    set({ all: '0', default: '1', dev0: '1' })
    const told: string[] = []
    const outcome = switchOnIpv6('dev0', ({ path, value }, before) => told.push(`${path} ${before} ${value}`), root)
    assert.equal(outcome, 'changed')
    assert.deepEqual(told, ['/proc/sys/net/ipv6/conf/dev0/disable_ipv6 1 0'])
    assert.deepEqual([valueOf('dev0'), valueOf('default'), valueOf('all')], ['0', '1', '0'])
    assert.equal(switchOnIpv6('dev0', assert.fail, root), 'unchanged')
  })

  it('changes nothing where IPv6 is off for the whole node, and where there is no device or no IPv6', () => {
    set({ all: '1', dev0: '1' })
    const lack = switchOnIpv6('dev0', assert.fail, root)
    assert.ok(lack instanceof CodedError)
    assert.deepEqual(
      [lack.code, lack.message],
      ['ipv6-off', 'IPv6 is switched off: net.ipv6.conf.all.disable_ipv6 is 1'],
    )
    assert.equal(valueOf('dev0'), '1')
    assert.equal(switchOnIpv6('dev1', assert.fail, root), 'unchanged')
  })

  it('says what keeps it from writing', () => {
    set({ all: '0', dev0: '1' })
    // A file that nobody may write, and that does not say 0.
    rmSync(fileOf('dev0'))
    symlinkSync('/proc/version', fileOf('dev0'))
    const lack = switchOnIpv6('dev0', assert.fail, root)
    assert.ok(lack instanceof CodedError)
    assert.equal(lack.code, 'ipv6-off')
    assert.match(
      lack.message,
      /^IPv6 is switched off: net\.ipv6\.conf\.dev0\.disable_ipv6 is 1, and the proxy cannot set it to 0: .+/,
    )
  })
})

describe('ipv6Lack', () => {
  it('names the setting of the node or the device, and changes nothing', () => {
    set({ all: '0', lo: '1', dev0: '0' })
    assert.equal(ipv6Lack('lo', root)?.message, 'IPv6 is switched off: net.ipv6.conf.lo.disable_ipv6 is 1')
    assert.equal(ipv6Lack('dev0', root), undefined)
    set({ all: '1' })
    assert.equal(ipv6Lack('dev0', root)?.message, 'IPv6 is switched off: net.ipv6.conf.all.disable_ipv6 is 1')
    assert.equal(valueOf('lo'), '1')
  })
})

test('haveNewDevicesNoIpv6 only where the node has IPv6', () => {
  assert.equal(haveNewDevicesNoIpv6(root), false)
  set({ all: '0', default: '1' })
  assert.equal(haveNewDevicesNoIpv6(root), true)
  set({ all: '1' })
  assert.equal(haveNewDevicesNoIpv6(root), false)
  set({ all: '0', default: '0' })
  assert.equal(haveNewDevicesNoIpv6(root), false)
})
