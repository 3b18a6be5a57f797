/**
 * Bundles: written and read again, refused when they are not what they seem, and printed without
 * control of the terminal.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, it, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { diagnosisText } from '../../src/cli/doctor-text.ts'
import type { Style } from '../../src/start/style.ts'
import { collectFacts } from '../../src/doctor/collect.ts'
import { readBundle, writeBundle } from '../../src/doctor/bundle.ts'
import { diagnose } from '../../src/doctor/diagnose.ts'
import { FACTS, type NodeFacts } from '../../src/doctor/facts.ts'
import { wholeTables } from '../../src/iptables/whole-tables.ts'
import { summarizeRules } from '../../src/doctor/rules-summary.ts'
import { CLEANUP_LAYOUT } from '../../src/modes/leftovers/layouts.ts'
import { defaultConfiguration } from '../support/configuration.ts'
import { CodedError } from '../../src/values/errors.ts'
import { ShapeError } from '../../src/values/shape.ts'
import { printable } from '../../src/values/quote.ts'
import { ROWS } from './check-rows.ts'
import { configured, node, running } from './healthy-node.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bundle-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const plain: Style = (_, text) => text
const textOf = (facts: Parameters<typeof diagnose>[0], columns = 100): string =>
  diagnosisText(diagnose(facts), { style: plain, columns }).join('\n')

describe('a bundle', () => {
  for (const name of ['node.json', 'node.json.gz'])
    it(`gives the same diagnosis when it is read again (${name})`, async () => {
      const facts = node({ ...running('kube-proxy'), lacks: { unseen: 'EPERM' } })
      const path = join(folder, name)
      await writeBundle(path, facts)
      assert.equal(statSync(path).mode & 0o777, 0o600)
      assert.deepEqual(await readBundle(path), facts)
      assert.equal(readFileSync(path)[0] === 0x1f, name.endsWith('.gz'))
    })

  it('of an older release lacks facts that were added since, which are then not seen', async () => {
    const path = join(folder, 'older')
    const { nftRules: _, rivals: __, ...older } = node()
    writeFileSync(path, JSON.stringify(older))
    const facts = await readBundle(path)
    assert.deepEqual(facts.nftRules, { unseen: 'the program that made the bundle did not look' })
    const unknown = diagnose(facts).checks.filter(({ severity }) => severity === 'unknown')
    assert.deepEqual(
      unknown.map(({ id }) => id),
      ['hidden-tables', 'host-ports'],
    )
  })

  it('is never written over a file or through a link', async () => {
    const path = join(folder, 'there')
    writeFileSync(path, 'mine')
    symlinkSync(path, join(folder, 'link'))
    for (const name of ['there', 'link'])
      await assert.rejects(writeBundle(join(folder, name), node()), { code: 'bundle-unwritable' })
    assert.equal(readFileSync(path, 'utf8'), 'mine')
  })

  it('is refused with the member and the reason', async () => {
    const path = join(folder, 'bad')
    const json = (change: (facts: Record<string, unknown>) => void): string => {
      const facts = structuredClone({ ...node() })
      change(facts)
      return JSON.stringify(facts)
    }
    const rows: readonly (readonly [content: string | Buffer, code: string, message: RegExp])[] = [
      ['', 'bundle-invalid', /no bundle/],
      ['\x1b[31m', 'bundle-invalid', /no bundle/],
      ['[]', 'bundle-invalid', /the bundle is not an object/],
      ['{"__proto__":{"format":1}}', 'bundle-invalid', /format is not a number/],
      [json((facts) => delete facts['kernel']), 'bundle-invalid', /kernel is not an object/],
      [json((facts) => (facts['nodeName'] = 7)), 'bundle-invalid', /nodeName is not a text/],
      [json((facts) => (facts['processes'] = [{}])), 'bundle-invalid', /processes\[0\]\.program is none of/],
      [
        json((facts) => (facts['settings'] = { '\x1b[2J': 'x' })),
        'bundle-invalid',
        /settings\."\\x1b\[2J" is not a number/,
      ],
      [json((facts) => (facts['format'] = 2)), 'bundle-invalid', /the format is 2/],
      ['{"format":2,"of":"another shape"}', 'bundle-invalid', /the format is 2/],
      [json((facts) => (facts['unmanagedDevices'] = Array(51).fill(''))), 'bundle-invalid', /has more than 50 items/],
      [Buffer.alloc(9 << 20), 'bundle-unreadable', /larger than 8 MiB/],
      [gzipSync(Buffer.alloc(40 << 20)), 'bundle-unreadable', /larger than/],
      // A file of 8 KiB that takes 300 MiB when it is parsed, and one that is deeper than facts are.
      [gzipSync(`[${'{},'.repeat(2_500_000)}{}]`), 'bundle-invalid', /more than 200000 values/],
      [`${'['.repeat(1_000_000)}${']'.repeat(1_000_000)}`, 'bundle-invalid', /more than 16 within each other/],
      [Buffer.from([0x1f, 0x8b, 0]), 'bundle-unreadable', /./],
    ]
    for (const [content, code, message] of rows) {
      writeFileSync(path, content)
      await assert.rejects(readBundle(path), (error) => {
        assert.ok(error instanceof CodedError)
        assert.equal(error.code, code, error.message)
        assert.match(error.message, message)
        assert.equal(error.message, printable(error.message))
        return true
      })
    }
    await assert.rejects(readBundle(folder), { code: 'bundle-unreadable' })
    await assert.rejects(readBundle(join(folder, 'none')), { code: 'bundle-unreadable' })
  })
})

describe('FACTS', () => {
  it('returns what it has returned before, for any text in it', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 600 }), (any) => {
        const once = FACTS(node({ nodeName: any, unmanagedDevices: [any], ...configured({ error: any }) }), '')
        assert.deepEqual(FACTS(JSON.parse(JSON.stringify(once)), ''), once)
      }),
    )
  })

  it('refuses with the code of a bundle, and names the member', () => {
    const rows: readonly (readonly [value: unknown, message: RegExp])[] = [
      [null, /^the value is not an object$/],
      [{ ...node(), kernel: 7 }, /^kernel is not an object$/],
      [{ ...node(), processes: [{}] }, /^processes\[0\]\.program is none of/],
      [{ ...node(), lacks: 7 }, /^lacks is not an object$/],
    ]
    for (const [value, message] of rows) assert.throws(() => FACTS(value, ''), { code: 'bundle-invalid', message })
  })

  it('either refuses a changed member or gives facts that can be diagnosed', () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(node())), fc.jsonValue(), (name, value) => {
        let facts
        try {
          facts = FACTS({ ...node(), [name]: value }, '')
        } catch (error) {
          assert.ok(error instanceof ShapeError)
          return
        }
        assert.ok(textOf(facts).length > 0)
      }),
    )
  })
})

describe('remedies of a bundle', () => {
  const commandsOf = (facts: NodeFacts): readonly string[] =>
    diagnose(facts).checks.flatMap(({ findings }) =>
      findings.flatMap(({ remedy }) => remedy.filter((line) => !line.startsWith('#'))),
    )

  it('never name what the maker of the bundle has put in place of any text', () => {
    const evil = ['$(reboot)', '-t/tmp/x', '/etc/ssh/sshd_config', 'inet filter', 'x; rm -rf /']
    let [changed, withCommands] = [0, 0]
    for (const [, changes] of ROWS)
      for (const [text, count] of textsIn(node(changes))) {
        for (const one of evil) {
          let facts: NodeFacts
          try {
            facts = FACTS(replaced(node(changes), text, one), '')
          } catch (error) {
            assert.ok(error instanceof ShapeError, String(error))
            continue
          }
          changed += count
          const commands = commandsOf(facts)
          if (commands.length > 0) withCommands++
          for (const command of commands) assert.ok(!command.includes(one), `${command} of ${text}`)
        }
      }
    assert.ok(changed > 1000 && withCommands > 1000, `${changed} ${withCommands}`)
  })

  it('are told to be of a bundle', () => {
    const [, about = ''] = diagnosisText(diagnose(node()), { style: plain, columns: 200, bundle: 'n\u001b.json' })
    assert.match(
      about,
      /^from the bundle n\\x1b\.json, which its maker may have changed: read a command before you run it;/,
    )
  })
})

/** Every text in a value, with the number of its places. */
function textsIn(value: unknown, into = new Map<string, number>()): ReadonlyMap<string, number> {
  if (typeof value === 'string') into.set(value, (into.get(value) ?? 0) + 1)
  else if (typeof value === 'object' && value !== null) for (const one of Object.values(value)) textsIn(one, into)
  return into
}

/** The value with another text in each place of one. */
function replaced(value: unknown, text: string, by: string): unknown {
  if (value === text) return by
  if (Array.isArray(value)) return value.map((one: unknown) => replaced(one, text, by))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one, text, by)]))
}

describe('diagnosisText', () => {
  it('never prints a control character of the node', () => {
    const evil = '\x1b[31m\r\nNode x is fine.\x07'
    const facts = FACTS(
      node({
        nodeName: evil,
        runningMode: evil,
        isOursRunning: false,
        ...configured({ from: evil, error: evil }),
        kernel: { ...node().kernel, release: evil },
        sysctlLines: [{ file: evil, name: 'net/ipv4/ip_forward', value: evil }],
        nftProxyTables: { value: [evil] },
        lacks: { value: [{ what: evil, module: evil, effect: evil, severity: 'error' }] },
        changes: { value: { count: 1, commands: [evil] } },
        clock: { unseen: evil },
        kubeProxyOrigins: { ...node().kubeProxyOrigins, staticPods: [evil] },
      }),
      '',
    )
    const text = textOf(facts)
    for (const line of text.split('\n')) assert.equal(line, printable(line))
    assert.equal(text.split('\n').filter((line) => line.startsWith('Node ')).length, 1)
  })

  it('says in its first line whether the node is fine', () => {
    const first = (facts: Parameters<typeof diagnose>[0]): string | undefined => textOf(facts).split('\n')[0]
    assert.equal(first(node()), 'Node node7 is fine.')
    assert.equal(first(node({ netAdmin: false })), 'Node node7 is fine: 1 note.')
    assert.equal(first(node(running('firewalld'))), 'Node node7 may not be fine: 1 warning.')
    assert.equal(
      first(node({ ...running('kube-proxy', 'firewalld'), conntrack: { unseen: 'EPERM' } })),
      'Node node7 is not fine: 1 error, 1 warning, 1 check without all facts.',
    )
  })

  it('has no sentence wider than the terminal, and no broken command', () => {
    const lines = textOf(node({ ...running('speaker', 'keepalived', 'NetworkManager') }), 80).split('\n')
    const isCommand = (line: string): boolean => line.startsWith('           ')
    assert.deepEqual(
      lines.filter((line) => line.length > 80 && !isCommand(line)),
      [],
    )
    assert.ok(lines.includes('           unmanaged-devices+=interface-name:kube-ipvs0'))
  })
})

test('summarizeRules keeps names and built-in filter rules, within bounds', () => {
  const hash = 'ABCDEFGHIJKLMNOP'
  const saved = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-${hash} - [0:0]
:KUBE-SEP-${hash} - [0:0]
-A PREROUTING -j KUBE-SERVICES
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:cali-FORWARD - [0:0]
:cali-INPUT - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
-A FORWARD -j cali-FORWARD
-A FORWARD -m comment --comment "${'x'.repeat(500)}" -j DROP
-A KUBE-FORWARD -j ACCEPT
${'-A INPUT -j ACCEPT\n'.repeat(500)}COMMIT`
  const facts = summarizeRules(wholeTables(saved), 'nft', 'IPv4', CLEANUP_LAYOUT)
  assert.deepEqual(facts.kubeChains, ['nat KUBE-SERVICES', 'filter KUBE-FORWARD'])
  assert.equal(facts.serviceChains, 2)
  assert.deepEqual(facts.otherChains, ['cali', 'KUBE-ROUTER'])
  const forward = facts.builtIn.find(({ chain }) => chain === 'FORWARD')
  assert.deepEqual([forward?.policy, forward?.rules[0]], ['DROP', '-j cali-FORWARD'])
  assert.equal(forward?.rules[1]?.length, 300)
  assert.equal(facts.builtIn.find(({ chain }) => chain === 'INPUT')?.rules.length, 100)
})

describe('collectFacts', () => {
  const options = {
    configuration: defaultConfiguration(),
    from: 'test',
    error: null,
    nodeName: 'here',
    daemon: { daemon: { value: null }, daemonSilence: '' },
    running: { mode: null, isOurs: false },
    changes: () => Promise.resolve(Array.from({ length: 1000 }, (_, index) => `command ${index}`)),
  }

  it('reads this machine, with any rights, and its facts make a bundle', async () => {
    const facts = await collectFacts({ ...options, access: undefined, signal: AbortSignal.timeout(60_000) })
    assert.ok('value' in facts.interfaces && facts.interfaces.value.some(({ name }) => name === 'lo'))
    assert.ok('value' in facts.changes)
    assert.deepEqual([facts.changes.value.count, facts.changes.value.commands.length], [1000, 200])
    const path = join(folder, 'here.json')
    await writeBundle(path, facts)
    assert.deepEqual(diagnose(await readBundle(path)), diagnose(facts))
  })

  it('says why it knows nothing of the cluster, and does not wait for it again', async () => {
    const access = () => Promise.reject(new CodedError('kubeconfig', 'no such file'))
    const facts = await collectFacts({ ...options, access, signal: AbortSignal.timeout(60_000) })
    assert.deepEqual([facts.cluster, facts.changes], [{ unseen: 'no such file' }, { unseen: 'no such file' }])
  })
})
