import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { readIpvsSctp, readIpvsTable } from '../../src/doctor/read-ipvs.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kube-ipvs-doctor-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function put(path: string, text: string): void {
  mkdirSync(dirname(root + path), { recursive: true })
  writeFileSync(root + path, text)
}

/** As Linux 7.2.13 prints it, with 5,000 connections. */
const STATUS = `Conns:	5000
Conn buckets:	4096 (12 bits, lfactor -4)
Conn buckets empty:	396 (9%)
Conn buckets len-1:	870 (23%)
Services:	1
Service buckets:	16 (4 bits, lfactor -3)
Stats thread slots:	1 (max 8)
`

test('readIpvsTable reads connections, lists and limits, and those that a kernel does not have are null', () => {
  put('/proc/net/ip_vs_status', STATUS)
  const table = { connections: 5000, buckets: 4096, bits: 12, largestBits: null, max: null }
  assert.deepEqual(readIpvsTable(root), { value: table })
  put('/sys/module/ip_vs/parameters/conn_tab_bits', '20\n')
  put('/proc/sys/net/ipv4/vs/conn_max', '1073741824\n')
  assert.deepEqual(readIpvsTable(root), { value: { ...table, largestBits: 20, max: 1_073_741_824 } })
})

test('readIpvsTable knows a kernel without the file from a file that it does not understand', () => {
  assert.deepEqual(readIpvsTable(root), { value: null })
  put('/proc/net/ip_vs_status', 'Conns: many\n')
  assert.deepEqual(readIpvsTable(root), { unseen: '/proc/net/ip_vs_status has another form' })
  rmSync(`${root}/proc/net/ip_vs_status`)
  mkdirSync(`${root}/proc/net/ip_vs_status`)
  assert.deepEqual(readIpvsTable(root), { unseen: 'only root may read /proc/net/ip_vs_status' })
})

const TCP = '00000000604e8475 t tcp_conn_schedule\t[ip_vs]\n'
const SCTP = '00000000604e9cea t sctp_conn_schedule'

test('readIpvsSctp finds SCTP among the symbols of the kernel, in a module, built in, and wherever a portion ends', () => {
  // A portion is 65,536 bytes long.
  for (const end of ['\n', '\t[ip_vs]\n', '.llvm.1234567\n'])
    for (const before of [0, 65_500, 65_520, 200_000]) {
      const lines = '0000000000000000 t x\n'.repeat(10_000).slice(0, before)
      put('/proc/kallsyms', `${TCP}${lines}\n${SCTP}${end}`)
      assert.deepEqual(readIpvsSctp(root), { value: true }, JSON.stringify([end, before]))
    }
})

test('readIpvsSctp says that SCTP is missing only where the symbols of IPVS are listed', () => {
  put('/proc/kallsyms', `${TCP}0000 t my_sctp_conn_schedule\n0000 t sctp_conn_schedule_all\n`)
  assert.deepEqual(readIpvsSctp(root), { value: false })
  put('/proc/kallsyms', '0000 t printk\n')
  assert.deepEqual(readIpvsSctp(root), { unseen: 'the kernel does not list its symbols' })
  rmSync(`${root}/proc/kallsyms`)
  assert.deepEqual(readIpvsSctp(root), { unseen: 'the kernel does not list its symbols' })
})
