/**
 * The iptables table on a real kernel in both back ends and families: what iptables-save prints is
 * what we rendered, one restore a change, drift, failures, cleanup. Each test begins and ends with
 * clean tables of its back end.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { after, before, beforeEach, describe, it } from 'node:test'
import { CATALOGUE } from '../../src/ipset/catalogue.ts'
import type { IptablesItem, IptablesOperation } from '../../src/iptables/types.ts'
import { MissingFeature } from '../../src/values/errors.ts'
import { renderIpvsRules, type RuleInput } from '../../src/modes/ipvs/iptables-firewall/rules/render.ts'
import { IPVS_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { IptablesTable } from '../../src/iptables/table.ts'
import type { IptablesBackEnd } from '../../src/node/installed-iptables.ts'
import { HostIptables } from '../../src/node/iptables-programs.ts'
import type { PassReport } from '../../src/sync/pass.ts'
import { reconciled } from '../../src/sync/reconciled.ts'
import { Reconciler } from '../../src/sync/reconciler.ts'
import { TableSync } from '../../src/sync/table-sync.ts'
import { CodedError } from '../../src/values/errors.ts'
import { IP_FAMILIES, type IpFamily } from '../../src/values/protocol.ts'
import { everything } from '../modes/ipvs/iptables-firewall/rules/wanted.ts'
import { deadline } from '../support/deadline.ts'
import { holdLock } from '../support/iptables-programs.ts'
import { recordingPath } from '../support/recordings.ts'
import { needs } from './needs.ts'

const STEM: Readonly<Record<IpFamily, string>> = { IPv4: 'iptables', IPv6: 'ip6tables' }

function sh(command: string): string {
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' })
  assert.equal(status, 0, `${command}\n${stderr}`)
  return stdout
}

function programsOf(mode: IptablesBackEnd): HostIptables {
  const programs = (family: IpFamily) => {
    const name = `/usr/sbin/${STEM[family]}-${mode}`
    return { save: `${name}-save`, restore: `${name}-restore` }
  }
  return new HostIptables({
    mode,
    reason: 'the test says so',
    unusable: {},
    suffix: '',
    programs: { IPv4: programs('IPv4'), IPv6: programs('IPv6') },
    version: undefined,
    randomFully: true,
    waits: true,
  })
}

/** Without --noflush iptables-restore empties the tables it is given. */
function clean(mode: IptablesBackEnd): void {
  const restores = IP_FAMILIES.map(
    (family) => `printf '*nat\\nCOMMIT\\n*filter\\nCOMMIT\\n' | ${STEM[family]}-${mode}-restore`,
  )
  sh(restores.join(' && '))
}

/** As the recordings are: no comments and counters, chains sorted, rules sorted by chain. */
function savedText(mode: IptablesBackEnd, family: IpFamily): string {
  const lines = sh(`${STEM[family]}-${mode}-save`).split('\n')
  const tables = ['nat', 'filter'].map((table) => {
    const start = lines.indexOf(`*${table}`)
    const part = start < 0 ? [] : lines.slice(start + 1, lines.indexOf('COMMIT', start))
    const chains = part.filter((line) => line.startsWith(':')).map((line) => line.split(' ').slice(0, 2).join(' '))
    const names = chains.map((line) => line.slice(1).split(' ')[0] ?? '').sort()
    const rules = names.flatMap((name) => part.filter((line) => line.startsWith(`-A ${name} `)))
    return [`*${table}`, ...chains.sort(), ...rules, 'COMMIT']
  })
  return `${tables.flat().join('\n')}\n`
}

class Bench {
  readonly programs: HostIptables
  readonly family: IpFamily
  readonly sync: TableSync<IptablesItem, IptablesOperation>
  readonly #reconciler: Reconciler

  constructor(mode: IptablesBackEnd, family: IpFamily) {
    this.programs = programsOf(mode)
    this.family = family
    this.sync = new TableSync(new IptablesTable(family, this.programs, IPVS_LAYOUT))
    // As the loops of rules do.
    this.#reconciler = new Reconciler([reconciled(this.sync, { atOnce: true })])
  }

  want(change: Partial<RuleInput> = {}): void {
    for (const [key, item] of renderIpvsRules(everything(this.family, change)).items) this.sync.want(key, item)
  }

  wantNothing(): void {
    for (const key of this.sync.desiredKeys()) this.sync.want(key, undefined)
  }

  /** @param laterMs how much later than now it is for the pass */
  async pass(laterMs = 0): Promise<PassReport & { readonly starts: number }> {
    const before = this.programs.starts
    const report = await this.#reconciler.pass({
      signal: AbortSignal.timeout(deadline(30_000)),
      now: () => performance.now() + laterMs,
      mayRemove: true,
    })
    return { ...report, applied: report.applied, starts: this.programs.starts - before }
  }

  async settle(change: Partial<RuleInput> = {}): Promise<void> {
    this.want(change)
    const { failures, unreadable } = await this.pass()
    assert.deepEqual([failures, unreadable], [[], []])
  }
}

const codes = (report: PassReport): readonly string[] =>
  report.failures.map(({ key, error }) => `${key}: ${error instanceof CodedError ? error.code : error.message}`)

function makeSets(): void {
  const lines = CATALOGUE.map(({ name, type, family }) => {
    const options = type === 'bitmap:port' ? 'range 0-65535' : `family ${family === 'IPv4' ? 'inet' : 'inet6'}`
    return `create ${name} ${type} ${options}`
  })
  sh(`printf '${lines.join('\\n')}\\n' | ipset restore -exist`)
}

for (const mode of ['nft', 'legacy'] as const) {
  describe(`IptablesTable on ${mode}`, needs(mode === 'nft' ? 'iptables-nft' : 'legacy-iptables'), () => {
    before(makeSets)
    beforeEach(() => clean(mode))
    after(() => clean(mode))

    for (const family of IP_FAMILIES) {
      const program = `${STEM[family]}-${mode}`

      it(`leaves what it rendered, with everything there is, in ${family}`, async () => {
        const bench = new Bench(mode, family)
        bench.want()
        const report = await bench.pass()
        assert.deepEqual(codes(report), [])
        assert.equal(report.starts, 2)
        const file = `${import.meta.dirname}/../modes/ipvs/iptables-firewall/rules/everything-${family}.txt`
        assert.equal(savedText(mode, family), readFileSync(file, 'utf8'))
        bench.sync.doubt('all')
        const again = await bench.pass()
        assert.equal(again.starts, 1, 'one read and nothing to do')
        assert.equal(again.repairs.length, 0)
        assert.equal((await bench.pass()).starts, 0)
      })

      it(`reads back every kind of detector and mark as it wrote it in ${family}`, async () => {
        const bench = new Bench(mode, family)
        const [address, length] = family === 'IPv4' ? ['10.1.2.3', 32] : ['fd00::1', 128]
        const rows: readonly Partial<RuleInput>[] = [
          { localTraffic: { kind: 'interface', name: 'cbr0' } },
          { localTraffic: { kind: 'interface-prefix', prefix: 'veth' } },
          { localTraffic: { kind: 'cidr', cidr: { family, address, prefixLength: length } } },
          { localTraffic: { kind: 'cidr', cidr: { family, address, prefixLength: 0 } } },
          { localTraffic: undefined },
          { masqueradeAll: true, masqueradeBit: 31 },
          { masqueradeBit: 0, randomFully: false },
        ]
        for (const row of rows) {
          await bench.settle(row)
          bench.sync.doubt('all')
          const report = await bench.pass()
          assert.equal(report.starts, 1, JSON.stringify(row))
        }
      })

      it(`puts right what others changed in ${family}`, async () => {
        const bench = new Bench(mode, family)
        await bench.settle()
        const target = savedText(mode, family)
        sh(`${program} -N MY-CHAIN && ${program} -A MY-CHAIN -j DROP && ${program} -A FORWARD -i other -j MY-CHAIN`)
        const withTheirs = savedText(mode, family)
        const rows = [
          `${program} -t nat -F KUBE-SERVICES`,
          `${program} -t nat -I KUBE-POSTROUTING -i other -j ACCEPT || ${program} -t nat -I KUBE-POSTROUTING -j ACCEPT`,
          `${program} -D INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER`,
        ]
        for (const command of rows) {
          sh(command)
          assert.notEqual(savedText(mode, family), withTheirs)
          bench.sync.doubt('all')
          const report = await bench.pass()
          assert.equal(report.starts, 2)
          assert.equal(savedText(mode, family), withTheirs, command)
        }
        sh(`${program} -F; ${program} -X; ${program} -t nat -F; ${program} -t nat -X`)
        bench.sync.doubt('all')
        await bench.pass()
        assert.equal(savedText(mode, family), target)
      })

      it(`removes all of it, but for a chain that others lead to, in ${family}`, async () => {
        const bench = new Bench(mode, family)
        await bench.settle()
        sh(`${program} -A INPUT -i other -j KUBE-FORWARD`)
        bench.sync.doubt('all')
        bench.wantNothing()
        const report = await bench.pass()
        assert.deepEqual(codes(report), ['filter KUBE-FORWARD: iptables-chain-in-use'])
        assert.equal(report.starts, 2)
        const left = savedText(mode, family)
          .split('\n')
          .filter((line) => line.includes('KUBE'))
        assert.deepEqual(left, [':KUBE-FORWARD -', '-A INPUT -i other -j KUBE-FORWARD'])
        sh(`${program} -F INPUT`)
        const last = new Bench(mode, family)
        await last.pass()
        assert.doesNotMatch(savedText(mode, family), /KUBE/)
      })
    }

    it('empties a chain when the restore that deletes it says that it is in use', async () => {
      const bench = new Bench(mode, 'IPv4')
      await bench.settle()
      sh(`iptables-${mode} -A INPUT -i other -j KUBE-FORWARD`)
      bench.wantNothing()
      assert.deepEqual(codes(await bench.pass()), ['filter KUBE-FORWARD: iptables-chain-in-use'])
      assert.equal(savedText(mode, 'IPv4').match(/KUBE/g)?.length, 2)
    })

    it('loses only the chain whose set is missing', async () => {
      sh('ipset destroy KUBE-LOAD-BALANCER-LOCAL')
      const bench = new Bench(mode, 'IPv4')
      bench.want()
      const report = await bench.pass()
      assert.deepEqual(codes(report), ['nat KUBE-LOAD-BALANCER: iptables-restore-failed'])
      assert.match(
        report.failures[0]?.error.message ?? '',
        /Set KUBE-LOAD-BALANCER-LOCAL doesn't exist\. \(-A KUBE-LOAD-/,
      )
      const golden = readFileSync(
        `${import.meta.dirname}/../modes/ipvs/iptables-firewall/rules/everything-IPv4.txt`,
        'utf8',
      )
      assert.deepEqual(savedText(mode, 'IPv4'), golden.replace(/^-A KUBE-LOAD-BALANCER .*\n/gm, ''))
      makeSets()
    })

    it('loses only the rules whose match is missing', needs('program:iptables-nft'), async () => {
      const libraries = mkdtempSync(`${tmpdir()}/xtables-`)
      const real = ['/usr/lib/x86_64-linux-gnu/xtables', '/usr/lib/aarch64-linux-gnu/xtables', '/usr/lib/xtables'].find(
        existsSync,
      )
      assert.ok(real !== undefined)
      for (const file of readdirSync(real))
        if (file !== 'libxt_ipvs.so') symlinkSync(`${real}/${file}`, `${libraries}/${file}`)
      process.env['XTABLES_LIBDIR'] = libraries
      try {
        const bench = new Bench(mode, 'IPv4')
        bench.want()
        const report = await bench.pass()
        const [failure] = report.failures
        assert.deepEqual(codes(report), ['filter KUBE-IPVS-OUT-FILTER: iptables-match-missing'])
        assert.ok(failure?.error instanceof MissingFeature && failure.error.feature === 'ipvs')
        const golden = readFileSync(
          `${import.meta.dirname}/../modes/ipvs/iptables-firewall/rules/everything-IPv4.txt`,
          'utf8',
        )
        assert.equal(savedText(mode, 'IPv4'), golden.replace(/^-A KUBE-IPVS-OUT-FILTER .*\n/gm, ''))
      } finally {
        delete process.env['XTABLES_LIBDIR']
        rmSync(libraries, { recursive: true })
      }
    })

    it('leaves the text of the recorded clean node', async () => {
      for (const family of IP_FAMILIES) {
        const bench = new Bench(mode, family)
        await bench.settle({ filled: new Set(family === 'IPv4' ? ['KUBE-CLUSTER-IP'] : []), outFilter: [] })
        const file = `base-no-services/recorded/ipvs/1/${STEM[family]}.txt`
        assert.equal(savedText(mode, family), readFileSync(recordingPath(`cases/${file}`), 'utf8'))
      }
    })
  })
}

describe('IptablesTable on legacy with a held lock', needs('legacy-iptables', 'program:flock'), () => {
  it('reports that the lock is held, and writes when it is free', async () => {
    const holder = await holdLock('/run/xtables.lock')
    try {
      const bench = new Bench('legacy', 'IPv4')
      bench.want()
      const report = await bench.pass()
      assert.equal(report.failures.length, 20)
      assert.ok(
        codes(report).every((text) => text.endsWith(': iptables-locked')),
        codes(report)[0],
      )
      await holder.release()
      assert.deepEqual(codes(await bench.pass(60_000)), [])
    } finally {
      await holder.release()
      clean('legacy')
    }
  })
})
