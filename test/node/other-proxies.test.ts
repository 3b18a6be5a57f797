import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { findOtherProxies, type OtherProxies } from '../../src/node/other-proxies.ts'

const HOST_PIDS = 'pid:[4026531836]'

let proc: string
beforeEach(() => {
  proc = mkdtempSync(join(tmpdir(), 'kube-ipvs-proc-'))
  mkdirSync(`${proc}/self/ns`, { recursive: true })
  symlinkSync('net:[1]', `${proc}/self/ns/net`)
  symlinkSync(HOST_PIDS, `${proc}/self/ns/pid`)
  run(1, 'systemd')
})
afterEach(() => rmSync(proc, { recursive: true }))

function run(pid: number, comm: string, { args = [], net = 'net:[1]' }: { args?: string[]; net?: string } = {}): void {
  mkdirSync(`${proc}/${pid}/ns`, { recursive: true })
  writeFileSync(`${proc}/${pid}/comm`, `${comm}\n`)
  writeFileSync(`${proc}/${pid}/cmdline`, args.map((arg) => `${arg}\0`).join(''))
  if (net !== '') symlinkSync(net, `${proc}/${pid}/ns/net`)
}

const find = (writers: readonly number[] = []): Promise<OtherProxies> =>
  findOtherProxies({ proc, own: [500, 501], writers })
const names = async (writers?: readonly number[]): Promise<string[]> =>
  (await find(writers)).found.map(({ pid, name }) => `${pid} ${name}`)

describe('findOtherProxies', () => {
  it('finds the proxies that run in the same network namespace, but not its own process', async () => {
    run(500, 'kube-proxy')
    run(600, 'kube-proxy')
    run(601, 'kube-router', { net: '' })
    run(602, 'kube-proxy', { net: 'net:[2]' })
    run(603, 'sshd', { args: ['kube-proxy'] })
    assert.deepEqual(await find(), {
      found: [
        { pid: 600, name: 'kube-proxy' },
        { pid: 601, name: 'kube-router' },
      ],
      hidden: undefined,
    })
  })

  it('finds another kube-ipvs by the file that its Node.js runs', async () => {
    run(600, 'MainThread', { args: ['node', '--expose-gc', '/opt/kube-ipvs/src/main.ts', '--v=2'] })
    run(601, 'node', { args: ['/usr/bin/node', '/usr/local/bin/kube-ipvs', '--once'] })
    run(602, 'node', { args: ['node', '/srv/app.js', '/opt/kube-ipvs'] })
    run(603, 'node', { args: ['node', '/usr/local/bin/kube-ipvs', 'status', '--watch'] })
    run(604, 'node', { args: ['node', '/usr/local/bin/kube-ipvs', '--output=json', 'top'] })
    assert.deepEqual(await names(), ['600 kube-ipvs', '601 kube-ipvs'])
  })

  it('adds processes whose netlink socket changed an item, whatever their names are', async () => {
    run(600, 'evil\n"name')
    assert.deepEqual(await names([600, 601, 500]), ['600 evil\n"name'])
  })

  it('reads at most 4 KiB of a file, follows no link, and names at most 10 processes', async () => {
    run(600, 'x'.repeat(100_000))
    mkdirSync(`${proc}/601`)
    symlinkSync('../602/comm', `${proc}/601/comm`)
    assert.deepEqual(await names([601]), [])
    assert.deepEqual(await names([600]), [`600 ${'x'.repeat(4096)}`])
    for (let pid = 700; pid < 800; pid++) run(pid, 'kube-proxy')
    assert.equal((await names()).length, 10)
  })

  it('says why processes are hidden', async () => {
    rmSync(`${proc}/1`, { recursive: true })
    assert.match((await find()).hidden ?? '', /hidepid/)
    rmSync(`${proc}/self/ns/pid`)
    symlinkSync('pid:[4026532000]', `${proc}/self/ns/pid`)
    assert.match((await find()).hidden ?? '', /PID namespace of its own/)
  })

  it('finds nothing where /proc cannot be read', async () => {
    rmSync(proc, { recursive: true })
    mkdirSync(proc)
    assert.deepEqual((await find()).found, [])
  })
})
