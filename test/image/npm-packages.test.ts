/** What the image has of npm packages is what their archives have. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { requireSameFiles } from '../../dev/image/npm-packages.ts'
import { ownFolder } from '../../dev/own-folder.ts'
import { Unmet } from '../../dev/progress.mjs'

function folders(t: { after(run: () => void): void }): { readonly installed: string; readonly archive: string } {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-npm-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const [installed, archive] = [join(folder, 'installed'), join(folder, 'archive')]
  for (const one of [installed, archive]) {
    mkdirSync(join(one, 'lib'), { recursive: true })
    writeFileSync(join(one, 'package.json'), '{}')
    writeFileSync(join(one, 'lib/index.js'), 'module.exports = 1')
  }
  return { installed, archive }
}

test('requireSameFiles accepts the files of the archive, and packages that npm has put inside', (t) => {
  const { installed, archive } = folders(t)
  mkdirSync(join(installed, 'node_modules/other'), { recursive: true })
  writeFileSync(join(installed, 'node_modules/other/index.js'), '')
  requireSameFiles(installed, archive)
})

test('requireSameFiles names a file that was changed, added or removed', (t) => {
  const changes: readonly (readonly [file: string, change: (path: string) => void])[] = [
    ['lib/index.js', (path) => writeFileSync(path, 'module.exports = 2')],
    ['lib/added.js', (path) => writeFileSync(path, '')],
    ['package.json', (path) => rmSync(path)],
  ]
  for (const [file, change] of changes) {
    const { installed, archive } = folders(t)
    change(join(installed, file))
    assert.throws(
      () => requireSameFiles(installed, archive),
      new RegExp(`installed/${file} is not that of the archive`),
    )
  }
})

test('ownFolder makes or empties a folder of a tool, and refuses one with anything else', (t) => {
  const { installed: folder } = folders(t)
  const fresh = join(folder, 'new/one')
  const isOurs = (name: string): boolean => name.startsWith('ours')
  ownFolder(fresh, isOurs)
  for (const name of ['ours-1', 'ours-2']) writeFileSync(join(fresh, name), '')
  mkdirSync(join(fresh, 'ours-3/inside'), { recursive: true })
  ownFolder(fresh, isOurs)
  assert.throws(() => ownFolder(folder, isOurs), Unmet)
  assert.throws(() => ownFolder(folder, isOurs), /has (?:lib|new|package\.json), which was not made here/)
  writeFileSync(join(fresh, 'ours-1'), '')
  writeFileSync(join(fresh, 'theirs'), '')
  assert.throws(() => ownFolder(fresh, isOurs), /has theirs,/)
})
