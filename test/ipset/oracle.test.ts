/**
 * The recorded objects through parsers, frontends and render: the entries of all sets must be those
 * that kube-proxy wrote to the kernel, except in the steps listed here, each with its reason. A
 * step that is neither equal nor listed fails the test, and so does a listed step that is equal.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CATALOGUE, definitionOf } from '../../src/ipset/catalogue.ts'
import { formatSetOperation, parametersOf } from '../../src/ipset/diff.ts'
import { entryOf, hairpinEntries } from '../../src/ipset/render.ts'
import type { SetEntry } from '../../src/ipset/types.ts'
import { wantedEntries } from '../../src/ipset/render.ts'
import type { FrontendKey } from '../../src/service/frontends.ts'
import { membershipsOf } from '../../src/service/policy.ts'
import { recordedCases, type RecordedStep, walkCase } from '../support/recorded-cases.ts'

/** Steps (`case/step`) whose recorded sets differ from our wanted ones for the same objects, with the reason. */
const DIFFERENT: Readonly<Record<string, string>> = {
  'adopt-leftovers/2': 'the proxy is stopped',
  'cleanup/3': 'cleaned up',
  'cleanup/4': 'cleaned up',
  'cleanup-referenced-chain/3': 'cleaned up',
  'drift-ipset-wrong-parameters/1': 'deviation 36: kube-proxy stops at a set with other parameters',
  'gate-ipvs-off/1': 'the feature gate refuses ipvs mode',
  'npa-none-match/1': 'deviation 24: without a node port address the health check entry is removed too',
  'sched-bogus/1': 'deviation 37: kube-proxy ends at an unknown scheduler',
}

/** All created sets and their entries, sorted, without sets of other names. */
function recordedLines(step: RecordedStep): string[] {
  const isOurs = (line: string): boolean => definitionOf(line.split(' ')[1] ?? '') !== undefined
  return step.lines('ipset.txt').filter(isOurs).sort()
}

class Followed {
  readonly #wanted = wantedEntries()
  readonly #entries = new Map<string, SetEntry>()
  #known: readonly FrontendKey[] = []

  follow(step: RecordedStep): string[] {
    const keys = new Set([...this.#known, ...step.frontends.keys()])
    for (const key of keys) {
      const frontend = step.frontends.get(key)
      const entries = frontend === undefined ? [] : membershipsOf(frontend).map(entryOf)
      const hairpins = frontend && hairpinEntries(frontend, step.context.nodeName)
      for (const change of this.#wanted.set(key, entries, hairpins)) {
        if (change.entry === undefined) this.#entries.delete(change.key)
        else this.#entries.set(change.key, change.entry)
      }
    }
    this.#known = [...step.frontends.keys()]
    const creations = CATALOGUE.map((set) =>
      formatSetOperation({ kind: 'create-set', name: set.name, parameters: parametersOf(set) }).replace('ipset ', ''),
    )
    return [...creations, ...Array.from(this.#entries.keys(), (key) => `add ${key}`)].sort()
  }
}

function run(name: string): void {
  const followed = new Followed()
  walkCase(name, (step) => {
    const [ours, theirs] = [followed.follow(step), recordedLines(step)]
    const reason = DIFFERENT[step.name]
    if (reason === undefined) assert.deepEqual(ours, theirs, step.name)
    else assert.notDeepEqual(ours, theirs, `${step.name} is equal, but listed: ${reason}`)
  })
}

for (const name of recordedCases()) test(`the entries of frontends are those of oracle case ${name}`, () => run(name))
