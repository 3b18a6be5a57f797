/** The bundle as an image holds it: it runs without the repository around it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { bundle, copyNative } from '../../dev/bundle.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-bundle-'))
let entry = ''
before(async () => {
  ;({ entry } = await bundle({ directory: join(folder, 'dist') }))
})
after(() => rmSync(folder, { recursive: true }))

/** What `status` says: it opens netlink sockets before anything else. */
const status = (): string => {
  const { stdout, stderr } = spawnSync(process.execPath, [entry, 'status'], { encoding: 'utf8', cwd: folder })
  return stdout + stderr
}

describe('bundle', () => {
  it('loads koffi and its binary when they are copied next to it, and names what is missing otherwise', () => {
    assert.match(status(), /koffi cannot be loaded/)
    copyNative(join(folder, 'dist'))
    assert.doesNotMatch(status(), /koffi|native/i)
  })

  it('refuses an architecture whose binary npm did not install', () => {
    assert.throws(() => copyNative(folder, 'sparc'), /@koromix\/koffi-linux-sparc is not installed/)
  })
})
