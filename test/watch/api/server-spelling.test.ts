/**
 * Spellings of the server's address: Node's check of certificates gets the address itself
 * (CVE-2026-105483, CVE-2026-106069 and CVE-2026-106072 are about others).
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hostOf } from '../../../src/watch/api/http-tunnel.ts'

test('hostOf gives one spelling of an IPv4 address, whatever the URL has', () => {
  for (const spelling of [
    '127.0.0.1',
    '0177.0.0.1',
    '0x7f.0.0.1',
    '2130706433',
    '127.1',
    '１２７.０.０.１',
    '127。0。0。1',
  ])
    assert.equal(hostOf(new URL(`https://${spelling}:6443`)), '127.0.0.1', spelling)
  // With a leading zero it is octal, for the connection and for the certificate.
  assert.equal(hostOf(new URL('https://0127.0.0.1')), '87.0.0.1')
})

test('hostOf gives an IPv6 address without its brackets', () => {
  assert.equal(hostOf(new URL('https://[FD00::0:1]:6443')), 'fd00::1')
})
