/** Configurations that were given to kube-proxy 1.37, compared with what it wrote, warned of or refused. */
import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { completeModes } from '../../src/config/complete.ts'
import { checkConfiguration, decodeConfiguration } from '../../src/config/load.ts'
import { toV1alpha1, toYaml } from '../../src/config/write.ts'
import { ourError } from '../surfaces/decode-errors.ts'
import { readSurfaceDeviations } from '../surfaces/surface-case.ts'
import { recordingPath } from '../support/recordings.ts'

const FOLDER = 'surfaces/config'

interface RecordedCase {
  readonly group: string
  readonly name: string
  readonly config: string
  readonly error: string | null
  readonly warning?: string
  readonly written?: string
}

interface Read {
  readonly error: string | null
  readonly warning?: string
  readonly written?: string
}

/** The result of reading a file; a mode that only kube-proxy has is written too. */
function read(text: string): Read {
  const decoded = decodeConfiguration(text, 'config.yaml')
  if ('errors' in decoded) return { error: decoded.errors[0]?.message ?? '' }
  const configuration = completeModes(decoded.configuration)
  const checked = checkConfiguration(configuration, 'config.yaml')
  const [error] = 'errors' in checked ? checked.errors : []
  if (error !== undefined && error.code !== 'config-mode') return { error: error.message }
  const { lenient } = decoded
  return {
    error: null,
    ...(lenient === undefined ? {} : { warning: `Using lenient decoding as strict decoding failed: ${lenient}` }),
    written: toYaml(toV1alpha1(configuration)),
  }
}

test('checkConfiguration and toV1alpha1 refuse, warn of and write configurations as recorded', async (t) => {
  const recorded: { cases: RecordedCase[] } = JSON.parse(
    readFileSync(recordingPath(`${FOLDER}/invalid-cases.json`), 'utf8'),
  )
  assert.ok(recorded.cases.length > 100)
  // `npm run test:surfaces` checks what these do instead.
  const deviating = new Set(
    readSurfaceDeviations()
      // Those that only add a line to the log have the same result.
      .filter(({ instead }) => /^(?:-|exit code|written)/m.test(instead))
      .map((deviation) => deviation.case),
  )
  for (const { group, name, config, error, warning, written } of recorded.cases)
    await t.test(`${group}: ${name}`, () => {
      const expected = {
        error,
        ...(warning === undefined ? {} : { warning }),
        ...(written === undefined ? {} : { written }),
      }
      const ours = read(config)
      if (deviating.has(`config/invalid-cases.json ${group}: ${name}`)) assert.notDeepEqual(ours, expected)
      else assert.deepEqual({ ...ours, error: ours.error && ourError(error ?? '', ours.error) }, expected)
    })
})

test('decodeConfiguration and completeModes give the recorded defaults', async (t) => {
  const folder = recordingPath(`${FOLDER}/defaults-from-file`)
  const names = readdirSync(folder).flatMap((file) =>
    file.endsWith('.in.yaml') ? [file.slice(0, -'.in.yaml'.length)] : [],
  )
  assert.ok(names.length > 15)
  for (const name of names)
    await t.test(name, () => {
      const { written } = read(readFileSync(`${folder}/${name}.in.yaml`, 'utf8'))
      assert.equal(written, readFileSync(`${folder}/${name}.out.yaml`, 'utf8'))
    })
})
