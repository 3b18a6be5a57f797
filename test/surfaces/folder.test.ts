/** Folders of recorded surfaces that hold everything, a part or nothing, and what the command prints for them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, describe, it } from 'node:test'
import { recordingPath } from '../support/recordings.ts'
import { readSurfaces } from './folder.ts'
import { joined, readSurfaceDeviations } from './surface-case.ts'

const SURFACES = recordingPath('surfaces')
const COMMAND = join(import.meta.dirname, 'main.ts')

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** A folder with these of the recordings. */
function folderWith(...paths: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-surfaces-'))
  folders.push(folder)
  for (const path of paths) cpSync(join(SURFACES, path), join(folder, path), { recursive: true })
  return folder
}

const groupsOf = (folder: string): string[] => [
  ...new Set(readSurfaces(folder).cases.map(({ name }) => dirname(name.split(' ')[0] ?? ''))),
]

describe('readSurfaces', () => {
  it('finds every group in the recordings of this repository', () => {
    const { cases, missing } = readSurfaces(SURFACES)
    assert.deepEqual(missing, [])
    assert.ok(cases.length > 500, `${cases.length} cases`)
    assert.equal(new Set(cases.map(({ name }) => name)).size, cases.length, 'each name once')
  })

  it('names each missing file, and a missing folder once', () => {
    const { cases, missing } = readSurfaces(folderWith('config/flags.txt', 'http/metrics-ipvs.txt'))
    assert.ok(cases.some(({ name }) => name === 'config/flags.txt --config'))
    assert.ok(cases.some(({ name }) => name === 'metrics/series in ipvs mode'))
    assert.deepEqual(missing, [
      'config/defaults-from-file',
      'config/defaults.yaml',
      'config/flag-cases.json',
      'config/invalid-cases.json',
      'exit/',
      'http/health-check-node-port.json',
      'http/health.json',
      'http/metrics-server.json',
      'http/metrics-slis-ipvs.txt',
      'http/metrics.json',
    ])
  })

  for (const path of ['config', 'http', 'exit'])
    it(`reads a folder that holds only ${path}`, () => {
      const folder = folderWith(path)
      assert.ok(groupsOf(folder).length > 0)
      assert.deepEqual(
        readSurfaces(folder).missing,
        ['config/', 'exit/', 'http/'].filter((one) => one !== `${path}/`),
      )
    })

  it('names a file without recordings', () => {
    const folder = folderWith('exit')
    writeFileSync(join(folder, 'exit/host.txt'), '')
    assert.deepEqual(readSurfaces(folder), { cases: [], missing: ['config/', 'exit/host.txt', 'http/'] })
  })

  it('names a file that it cannot read', () => {
    const folder = folderWith()
    mkdirSync(join(folder, 'http'))
    writeFileSync(join(folder, 'http/health.json'), '{')
    assert.throws(() => readSurfaces(folder), /http\/health\.json is not a recording that this program can read: /)
  })

  it('replays the health ports without the file in which kube-proxy shows its configuration', async () => {
    const { cases } = readSurfaces(folderWith('http/health.json', 'http/health-check-node-port.json'))
    assert.ok(cases.length > 90, `${cases.length} cases`)
    const listed = new Map(readSurfaceDeviations().map((deviation) => [deviation.case, deviation.instead]))
    for (const { name, run } of cases) assert.equal(joined(await run()), listed.get(name) ?? '', name)
  })
})

describe('npm run test:surfaces', () => {
  const run = (...args: readonly string[]) =>
    spawnSync(process.execPath, [COMMAND, ...args], { encoding: 'utf8', timeout: 60_000 })

  it('runs the cases of a folder, names the missing ones, and passes', () => {
    const folder = folderWith('http/metrics-slis-ipvs.txt')
    const { status, stdout } = run('--cases', folder)
    const lines = stdout.trimEnd().split('\n')
    assert.equal(lines[0], `Recordings of ${folder}`)
    assert.ok(lines.includes('The folder holds no cases of config/'))
    assert.ok(lines.includes('The folder holds no cases of http/health.json'))
    assert.equal(lines.at(-1), '1 passed, 0 failed')
    assert.equal(status, 0)
  })

  for (const [what, args, message] of [
    ['a folder that is not there', (folder: string) => [join(folder, 'none')], /^There is no folder .*\/none\. /],
    ['a folder without recordings', (folder: string) => [folder], / holds no recorded surfaces\. .*--cases DIR\.\n$/],
    [
      'a pattern that no case has',
      () => [SURFACES, 'no such case'],
      /^None of the \d+ cases has a name with no such case\.\n$/,
    ],
  ] as const)
    it(`ends with 1 and one line for ${what}`, () => {
      const { status, stdout, stderr } = run('--cases', ...args(folderWith()))
      assert.match(stderr, message)
      assert.deepEqual([status, stdout, stderr.trimEnd().split('\n').length], [1, '', 1])
    })
})
