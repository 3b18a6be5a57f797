/** Chains and jumps of every mode, found in saved rules and removed by a pass that wants none of them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { ChainLayout } from '../../../src/iptables/layout.ts'
import { IptablesTable } from '../../../src/iptables/table.ts'
import type { IptablesPrograms } from '../../../src/iptables/types.ts'
import { CLEANUP_LAYOUT, IPTABLES_LAYOUT, IPVS_LAYOUT } from '../../../src/modes/leftovers/layouts.ts'
import { commandsOf } from '../../../src/sync/plan.ts'
import { reconciled } from '../../../src/sync/reconciled.ts'
import { Reconciler } from '../../../src/sync/reconciler.ts'
import { TableSync } from '../../../src/sync/table-sync.ts'
import { recordingPath } from '../../support/recordings.ts'

const CASE = 'cases/all-kinds/recorded/iptables/1'
const OPTIONS = { signal: new AbortController().signal, mayRemove: true, now: () => 0 }

function reconciler(text: string, layout: ChainLayout, inputs: string[] = []): Reconciler {
  const programs: IptablesPrograms = {
    save: async () => text,
    restore: async (_family, input) => {
      inputs.push(input)
      return { exitCode: 0, errorText: '' }
    },
  }
  const table = new IptablesTable('IPv4', programs, layout, { suffix: '-legacy' })
  return new Reconciler([reconciled(new TableSync(table), { atOnce: true })])
}

/** Commands of a pass that wants nothing, one each, without the name of the program. */
async function removals(text: string, layout: ChainLayout): Promise<string[]> {
  const commands = commandsOf(await reconciler(text, layout).plan(OPTIONS))
  return commands.flatMap((command) => command.split('\n')).map((line) => line.replace('iptables-legacy -t ', ''))
}

/** Every chain `KUBE-…` of a saved text, as `nat KUBE-SERVICES`. */
function kubeChains(text: string): string[] {
  return text.split(/^\*/m).flatMap((table) => {
    const name = table.split('\n')[0] ?? ''
    return [...table.matchAll(/^:(KUBE-\S+)/gm)].map((match) => `${name} ${match[1]}`)
  })
}

const deleted = (commands: readonly string[]): string[] =>
  commands.flatMap((command) => (command.includes(' -X ') ? command.replace(' -X', '') : []))

test('CLEANUP_LAYOUT has every chain of iptables mode but KUBE-FIREWALL, and every jump to one', async () => {
  for (const file of ['iptables.txt', 'ip6tables.txt']) {
    const text = readFileSync(recordingPath(`${CASE}/${file}`), 'utf8')
    const commands = await removals(text, CLEANUP_LAYOUT)
    const chains = kubeChains(text).filter((chain) => chain !== 'filter KUBE-FIREWALL')
    assert.deepEqual(deleted(commands).sort(), chains.sort(), file)
    const jumps = text.match(/^-A (INPUT|OUTPUT|FORWARD|PREROUTING|POSTROUTING) .*-j KUBE-(?!FIREWALL)/gm) ?? []
    assert.equal(commands.filter((command) => command.includes(' -D ')).length, jumps.length, file)
  }
})

test('IPVS_LAYOUT and IPTABLES_LAYOUT leave KUBE-FIREWALL of the other mode to kubelet', async () => {
  const text = readFileSync(recordingPath(`${CASE}/iptables.txt`), 'utf8')
  const all = kubeChains(text)
  const ofKubelet = all.filter((chain) => chain === 'filter KUBE-FIREWALL')
  assert.equal(ofKubelet.length, 1)
  const left = async (layout: ChainLayout): Promise<string[]> => {
    const gone = deleted(await removals(text, layout))
    return all.filter((chain) => !gone.includes(chain))
  }
  assert.deepEqual(await left(IPVS_LAYOUT), ofKubelet)
  assert.deepEqual(await left(IPTABLES_LAYOUT), [])
})

const SAVED = `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
:MINE - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -m comment --comment "an older release says it otherwise" -j KUBE-SERVICES
-A INPUT -s 192.0.2.1/32 -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A INPUT -j MINE
-A MINE -j KUBE-SERVICES
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-FUB4O6EOGILN62XS - [0:0]
:KUBE-XLB-FUB4O6EOGILN62XS - [0:0]
:KUBE-SVC-OF-MINE - [0:0]
:KUBE-MARK-DROP - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-XLB-FUB4O6EOGILN62XS
-A KUBE-XLB-FUB4O6EOGILN62XS -j KUBE-SVC-FUB4O6EOGILN62XS
COMMIT
`

test('CLEANUP_LAYOUT has chains and jumps of older releases, and none of kubelet or of others', async () => {
  const jumps = [
    'filter -D INPUT -m comment --comment "an older release says it otherwise" -j KUBE-SERVICES',
    'filter -D FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
    'filter -D FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    'nat -D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  ]
  const chains = [
    'filter KUBE-FORWARD',
    'filter KUBE-SERVICES',
    'nat KUBE-FIREWALL',
    'nat KUBE-SERVICES',
    'nat KUBE-SVC-FUB4O6EOGILN62XS',
    'nat KUBE-XLB-FUB4O6EOGILN62XS',
  ]
  // Nothing says any more that kubelet runs, and its chain stays all the same.
  const without = SAVED.replace(/^:KUBE-KUBELET-CANARY.*\n/m, '')
  for (const text of [SAVED, without]) {
    const commands = await removals(text, CLEANUP_LAYOUT)
    assert.deepEqual(commands.filter((command) => command.includes(' -D ')).sort(), jumps.toSorted())
    assert.deepEqual(deleted(commands).sort(), chains)
  }
  assert.deepEqual(await removals('*nat\n:MINE - [0:0]\nCOMMIT\n', CLEANUP_LAYOUT), [])
})

test('a pass empties a chain that rules of others lead to, and reports it', async () => {
  const inputs: string[] = []
  const { failures } = await reconciler(SAVED, CLEANUP_LAYOUT, inputs).pass(OPTIONS)
  assert.deepEqual(
    failures.map(({ key, error }) => `${key}: ${error.message}`),
    [
      'filter KUBE-SERVICES: the chain KUBE-SERVICES of filter was emptied but could not be deleted: -t filter -A INPUT -s 192.0.2.1/32 -j KUBE-SERVICES leads to it',
    ],
  )
  assert.equal(inputs.length, 1)
  assert.match(inputs[0] ?? '', /^:KUBE-SERVICES - \[0:0\]$/m)
  assert.match(inputs[0] ?? '', /^-X KUBE-XLB-FUB4O6EOGILN62XS$/m)
})
