/** Configurations that kube-proxy 1.36 was given, held against what it wrote, warned of or refused. */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { parse } from 'yaml'
import { formatConfigurationErrors, loadConfiguration } from '../../src/config/load.ts'
import { toV1alpha1 } from '../../src/config/write.ts'
import { sharedPath, skipWithoutShared } from '../support/shared.ts'

const FOLDER = 'oracle/surfaces/config'

interface RecordedCase {
  readonly group: string
  readonly name: string
  readonly config: string
  readonly accepted: boolean
  readonly error: string | null
  readonly warning?: string
  readonly written?: string
}

/** Where we decide otherwise: the code of our error, or `accepted`. Each with its reason. */
const DEVIATIONS: Readonly<Record<string, { readonly becomes: string; readonly because: string }>> = {
  'internal version': { becomes: 'config-kind', because: 'kube-proxy fails on it too, but later and by accident' },
  'mode nftables': { becomes: 'config-invalid', because: 'there is no such mode here; the error says what to do' },
  'nftables.masqueradeBit bad in nftables mode': { becomes: 'config-invalid', because: 'the mode itself is refused' },
  'featureGates unknown': { becomes: 'accepted', because: 'gates have no effect here; a list of names would age' },
  'featureGates locked gate': { becomes: 'accepted', because: 'as above' },
  'featureGates locked gate MultiCIDRServiceAllocator': { becomes: 'accepted', because: 'as above' },
}

/** Parts of a written file where the form differs and the meaning does not. */
function normalise(written: Record<string, unknown>): unknown {
  const logging = written['logging']
  if (typeof logging === 'object' && logging !== null && 'flushFrequency' in logging) {
    if (logging.flushFrequency === 5_000_000_000) logging.flushFrequency = '5s'
  }
  return written
}

/** The stage named by a recorded error, and the code of ours that stands for it. */
function expectedCode(error: string): string {
  if (
    /failed to decode: (Object|no kind|couldn't get version\/kind; json parse error: json|unexpected Group)/.test(error)
  ) {
    return 'config-kind'
  }
  if (/: (json: cannot unmarshal|time: )/.test(error)) return 'config-type'
  return error.startsWith('failed complete: failed to decode') ? 'config-syntax' : 'config-invalid'
}

test('loadConfiguration decides as recorded', {
  skip: skipWithoutShared(`${FOLDER}/invalid-cases.json`),
}, async (t) => {
  const recorded: { cases: RecordedCase[] } = JSON.parse(
    readFileSync(sharedPath(`${FOLDER}/invalid-cases.json`), 'utf8'),
  )
  assert.ok(recorded.cases.length > 100)
  for (const entry of recorded.cases) {
    await t.test(`${entry.group}: ${entry.name}`, () => {
      const result = loadConfiguration(entry.config, 'config.yaml')
      const deviation = DEVIATIONS[entry.name]
      if (deviation !== undefined) {
        if (deviation.becomes === 'accepted') assert.ok('configuration' in result, deviation.because)
        else assert.ok('errors' in result && result.errors[0]?.code === deviation.becomes, deviation.because)
        return
      }
      if (!entry.accepted) {
        assert.ok('errors' in result, `accepted, but recorded: ${entry.error}`)
        const error = entry.error ?? ''
        const code = expectedCode(error)
        assert.deepEqual(
          [...new Set(result.errors.map((problem) => problem.code))],
          [code],
          JSON.stringify(result.errors),
        )
        const rules = /^(?:failed validate|initialize logging): ([^]*)$/.exec(error)?.[1]
        if (code === 'config-invalid') assert.equal(formatConfigurationErrors(result.errors), rules)
        const field = /Go struct field \w+\.([\w.]+) of/.exec(error)?.[1]
        // encoding/json names the map, not the key in it.
        if (field !== undefined) assert.ok(result.errors[0]?.field?.startsWith(field), JSON.stringify(result.errors))
        return
      }
      assert.ok('configuration' in result, JSON.stringify(result))
      assert.deepEqual(
        JSON.parse(JSON.stringify(toV1alpha1(result.configuration))),
        normalise(parse(entry.written ?? '')),
      )
      const gates = Object.keys(result.configuration.featureGates).length > 0
      const warned = result.warnings.filter(({ code }) => code !== 'config-no-effect')
      assert.equal(warned.length > 0, entry.warning !== undefined, JSON.stringify(result.warnings))
      assert.ok(gates || warned.length === result.warnings.length)
      const unknown = /unknown field "([^"]+)"/.exec(entry.warning ?? '')?.[1]
      if (unknown !== undefined) assert.equal(warned[0]?.field, unknown)
      const duplicate = /line (\d+): key "([^"]+)" already set/.exec(entry.warning ?? '')
      if (duplicate !== null) {
        assert.deepEqual([warned[0]?.subject, warned[0]?.field], [`config.yaml:${duplicate[1]}`, duplicate[2]])
      }
    })
  }
})

test('loadConfiguration fills in the recorded defaults', {
  skip: skipWithoutShared(`${FOLDER}/defaults-from-file`),
}, async (t) => {
  const folder = sharedPath(`${FOLDER}/defaults-from-file`)
  const names = readdirSync(folder).flatMap((file) =>
    file.endsWith('.in.yaml') ? [file.slice(0, -'.in.yaml'.length)] : [],
  )
  assert.ok(names.length > 15)
  for (const name of names) {
    await t.test(name, () => {
      const result = loadConfiguration(readFileSync(`${folder}/${name}.in.yaml`, 'utf8'), 'config.yaml')
      if (name === 'mode-nftables') {
        assert.ok('errors' in result)
        return
      }
      assert.ok('configuration' in result, JSON.stringify(result))
      const written: unknown = parse(readFileSync(`${folder}/${name}.out.yaml`, 'utf8'))
      assert.deepEqual(JSON.parse(JSON.stringify(toV1alpha1(result.configuration))), written)
    })
  }
})
