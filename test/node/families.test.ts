import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { familiesWithIptables, type FamilySupport, kernelFamilies, usableFamilies } from '../../src/node/families.ts'

const BOTH: FamilySupport = { families: ['IPv4', 'IPv6'], lacks: [] }

test('kernelFamilies includes IPv6 if the kernel has it and disable_ipv6 of all interfaces is not 1', (t) => {
  const root = mkdtempSync(join(tmpdir(), 'kube-ipvs-families-'))
  t.after(() => rmSync(root, { recursive: true }))
  const setting = `${root}/proc/sys/net/ipv6/conf/all`
  const without = (why: 'kernel' | 'disabled'): FamilySupport => ({
    families: ['IPv4'],
    lacks: [{ family: 'IPv6', why }],
  })
  assert.deepEqual(kernelFamilies(root), without('kernel'))
  mkdirSync(`${root}/proc/net`, { recursive: true })
  writeFileSync(`${root}/proc/net/if_inet6`, '')
  assert.deepEqual(kernelFamilies(root), BOTH, 'a missing setting is not 1')
  mkdirSync(setting, { recursive: true })
  writeFileSync(`${setting}/disable_ipv6`, '0\n')
  assert.deepEqual(kernelFamilies(root), BOTH)
  writeFileSync(`${setting}/disable_ipv6`, '1\n')
  assert.deepEqual(kernelFamilies(root), without('disabled'))
})

test('familiesWithIptables keeps the families whose rules can be written and gives the reason for the others', () => {
  assert.deepEqual(familiesWithIptables(BOTH, {}), BOTH)
  const lack = (family: 'IPv4' | 'IPv6') => ({ family, why: 'iptables', reason: 'no programs' }) as const
  assert.deepEqual(familiesWithIptables(BOTH, { IPv6: 'no programs' }), { families: ['IPv4'], lacks: [lack('IPv6')] })
  assert.deepEqual(familiesWithIptables(BOTH, { IPv4: 'no programs' }), { families: ['IPv6'], lacks: [lack('IPv4')] })
  const disabled: FamilySupport = { families: ['IPv4'], lacks: [{ family: 'IPv6', why: 'disabled' }] }
  assert.deepEqual(familiesWithIptables(disabled, { IPv6: 'no programs' }), disabled)
})

test('familiesWithIptables throws where iptables works for no family', () => {
  for (const kernel of [BOTH, { families: ['IPv4'], lacks: [{ family: 'IPv6', why: 'kernel' }] } as const])
    assert.throws(() => familiesWithIptables(kernel, { IPv4: 'no nf_tables', IPv6: 'no nf_tables' }), {
      code: 'iptables-missing',
      message: 'iptables is not available on this host : no nf_tables',
    })
})

test('usableFamilies says what a family lacks that writes its rules', () => {
  const lack = { family: 'IPv6', why: 'nftables', reason: 'no nf_tables' } as const
  assert.deepEqual(usableFamilies(BOTH, { IPv6: 'no nf_tables' }, 'nftables'), { families: ['IPv4'], lacks: [lack] })
  assert.deepEqual(usableFamilies(BOTH, { IPv4: 'no', IPv6: 'no' }, 'nftables').families, [])
})
