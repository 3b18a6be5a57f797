/** The repository is complete: it names nothing outside, and its recordings are as they were recorded. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const RECORDINGS = 'test/recordings'
/** Made by tools, or not ours. */
const NOT_OURS = new Set(['.git', '.cache', 'dist', 'node_modules'])
/** The folder next to the repository that its founders use, put together so that this file does not name it. */
const BESIDE = ['..', 'shared'].join('/')
/** Over each path and content, in order of the paths: only a new recording changes it. */
const RECORDED = { files: 1960, sha256: 'f9a9e298d1ff8e7fde2e81a7ebba39a7a140ee7979c7ced9ba1441e8d39d4c1e' }

/** Paths of all files in a folder of the repository, relative to the repository. */
function filesIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (NOT_OURS.has(entry.name)) return []
    return entry.isDirectory() ? filesIn(path) : entry.isFile() ? [path] : []
  })
}

const read = (path: string): Buffer => readFileSync(join(ROOT, path))

test('no file names the folder next to the repository', () => {
  const paths = filesIn('.').filter((path) => !path.startsWith(`${RECORDINGS}/`))
  assert.ok(paths.includes('.ci/run') && paths.includes('README.md') && paths.includes('src/main.ts'))
  assert.deepEqual(
    paths.filter((path) => read(path).includes(BESIDE)),
    [],
  )
})

test('the recordings are byte for byte what was recorded', () => {
  const paths = filesIn(RECORDINGS).filter((path) => path !== `${RECORDINGS}/README.md`)
  const hash = createHash('sha256')
  for (const path of paths.sort()) hash.update(`${path}\n`).update(read(path)).update('\n')
  assert.deepEqual({ files: paths.length, sha256: hash.digest('hex') }, RECORDED)
})
