/** The command of the evidence: what it refuses, its help, and the page that it writes. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { resultsPage } from '../../dev/evidence/page.ts'
import type { PartRecord } from '../../dev/evidence/part.ts'
import { PARTS } from '../../dev/evidence/parts.ts'
import { helpFor } from '../../dev/help.mjs'
import { projectFolder } from '../../dev/progress.mjs'

const record: PartRecord = {
  part: 'soak',
  purpose: 'memory over hours',
  command: 'npm run evidence -- --only soak',
  measuredAt: '2026-11-26T10:00:00.000Z',
  commit: '0123abcd',
  machine: '2 processors',
  seconds: 7200,
  result: { problems: [], slope: { mibPerHour: 0.1 }, names: ['a', 'b'], rows: [{ a: 1 }] },
}

describe('npm run evidence', () => {
  const run = (...args: string[]) =>
    spawnSync(process.execPath, ['dev/evidence.ts', ...args], { cwd: projectFolder, encoding: 'utf8' })

  it('refuses a part that does not exist and hours that are no number, and measures nothing', () => {
    for (const [args, message] of [
      [['--only', 'nothing'], /no part is called nothing; there are: /],
      [['--hours', '0'], /--hours needs a positive number, not 0/],
      [['--hours', 'x'], /--hours needs a positive number, not x/],
    ] as const) {
      const { status, stderr } = run(...args)
      assert.equal(status, 1)
      assert.match(stderr, message)
    }
  })

  it('names every part in its help, and each name once', () => {
    const names = PARTS.map(({ name }) => name)
    assert.equal(new Set(names).size, names.length)
    for (const name of names) assert.ok(helpFor['evidence']?.includes(name), name)
  })

  it('has kept a result of every part, with the command that repeats it', () => {
    for (const { name } of PARTS) {
      const file = join(projectFolder, `docs/evidence/${name}.json`)
      assert.ok(existsSync(file), file)
      const kept = JSON.parse(readFileSync(file, 'utf8')) as PartRecord // written by the command
      assert.equal(kept.part, name)
      assert.match(kept.command, new RegExp(`^npm run evidence -- --only ${name}( |$)`))
      assert.match(
        readFileSync(join(projectFolder, 'docs/evidence/results.md'), 'utf8'),
        new RegExp(`^## ${name}$`, 'm'),
      )
    }
  })
})

describe('the page of the results', () => {
  it('has a section for each part with its command, date, commit, machine and figures', () => {
    const page = resultsPage([record])
    assert.match(page, /^## soak$/m)
    assert.match(page, /^Memory over hours: \[data\]\(soak\.json\)\. `npm run evidence -- --only soak` took 7200 s/m)
    assert.match(page, /on 2026-11-26, commit 0123abcd, 2 processors\.$/m)
    assert.match(page, /- no problems\n- slope\.mibPerHour: 0\.1\n- names: a, b\n- rows: 1\n$/)
  })

  it('has a table where a part has one, with nothing of it as Markdown', () => {
    const table = [
      { fault: 'a|b', lost: 0 },
      { fault: 'c', lost: 2 },
    ]
    const page = resultsPage([{ ...record, result: { problems: [], figure: 1, table } }])
    assert.ok(page.endsWith('- figure: 1\n\n| fault | lost |\n| --- | --- |\n| a\\|b | 0 |\n| c | 2 |\n'), page)
  })

  it('has the problems first, and no text of them as Markdown', () => {
    const page = resultsPage([{ ...record, result: { problems: ['a *bad*\n# thing [x](y)'], figure: '<b>' } }])
    assert.match(page, /- \*\*problem\*\*: a \\\*bad\\\* # thing \\\[x\\\]\(y\)\n- figure: \\<b\\>\n$/)
  })
})
