/** The pages of docs/man are what the tables of commands and flags generate; UPDATE_GOLDEN=1 rewrites them. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { manPage, manPageName } from '../../dev/man-pages.ts'
import { COMMANDS } from '../../src/start/commands.ts'
import { FLAGS } from '../../src/start/flags.ts'

const FOLDER = new URL('../../docs/man/', import.meta.url)
const NAMES = COMMANDS.map(manPageName)

test('manPage is the content of the file for every command, and there are no other files', () => {
  if (process.env['UPDATE_GOLDEN'] === '1') {
    for (const name of readdirSync(FOLDER)) if (!NAMES.includes(name)) rmSync(new URL(name, FOLDER))
    for (const command of COMMANDS) writeFileSync(new URL(manPageName(command), FOLDER), manPage(command))
  }
  assert.deepEqual(readdirSync(FOLDER).sort(), [...NAMES].sort())
  for (const command of COMMANDS)
    assert.equal(readFileSync(new URL(manPageName(command), FOLDER), 'utf8'), manPage(command), command)
})

test('manPage has every flag of its command, and no line that a reader of manual pages takes for an unknown macro', () => {
  for (const command of COMMANDS) {
    const page = manPage(command)
    for (const { name, commands } of Object.values(FLAGS))
      if (commands.includes(command)) assert.ok(page.includes(`\\-\\-${name.replaceAll('-', '\\-')}`), name)
    for (const line of page.split('\n'))
      assert.match(line, /^($|[^.'\\]|\\[-&e]|\\fB|\.(TH|SH|SS|PP|TP|BR|br|\\") ?)/, line)
  }
})

test('package.json names every page, so that npm installs them with the program', () => {
  const { man } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { man: string[] }
  assert.deepEqual(
    man,
    NAMES.map((name) => `./docs/man/${name}`),
  )
})
