/** How a file that rests is watched with few wake-ups. */
import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { WatchedFile } from '../../src/daemon/watched-file.ts'

const POLL_MS = 500
/** A file that rests is checked every 5 s. */
const REST_MS = 10 * POLL_MS

for (const [way, change] of [
  ['written in place', (folder: string) => writeFileSync(join(folder, 'config'), 'b')],
  [
    'replaced by rename',
    (folder: string) => {
      writeFileSync(join(folder, 'new'), 'b')
      renameSync(join(folder, 'new'), join(folder, 'config'))
    },
  ],
  [
    'swapped as a ConfigMap is',
    (folder: string) => {
      writeFileSync(join(folder, '..other'), 'b')
      symlinkSync('..other', join(folder, '..next'))
      renameSync(join(folder, '..next'), join(folder, 'config'))
    },
  ],
] as const)
  it(`WatchedFile notices a file that is ${way} without waiting for the check of a file that rests`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-watched-'))
    t.after(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'config'), 'a')
    let reports = 0
    const file = new WatchedFile({
      path: join(folder, 'config'),
      onContent: async () => void reports++,
      pollMs: POLL_MS,
    })
    t.after(() => file.close())
    file.start()
    while (reports < 1) await sleep(10)
    // The check after the report begins the rest.
    await sleep(2 * POLL_MS)
    const startedMs = performance.now()
    change(folder)
    while (reports < 2) await sleep(10)
    assert.ok(performance.now() - startedMs < REST_MS - 3 * POLL_MS, `${performance.now() - startedMs} ms`)
  })
