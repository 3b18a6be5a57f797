/**
 * Group: starts that must fail because there is nothing to connect with, as recorded in `exit/host.txt`. The recording names
 * its scenes by title only; this file says what was on the command line.
 */
import { readFileSync } from 'node:fs'
import { mismatches, type Recorded } from './compare.ts'
import { runProgram } from './program.ts'
import type { Recordings, SurfaceCase } from './surface-case.ts'

interface Start {
  readonly args: readonly string[]
  readonly files?: Readonly<Record<string, string>>
}

/** By the title of the scene. */
const SCENES: Readonly<Record<string, Start>> = {
  'kubeconfig file missing': { args: ['--kubeconfig=/nonexistent'] },
  'kubeconfig not YAML': { args: ['--kubeconfig=bad.conf'], files: { 'bad.conf': 'a: [\nb: c\n' } },
  'kubeconfig empty file': { args: ['--kubeconfig=empty.conf'], files: { 'empty.conf': '' } },
  'no kubeconfig, no --master, not in a cluster': { args: [] },
}

export const STARTS: readonly Recordings[] = [{ path: 'exit/host.txt', read: starts }]

function starts(file: string): SurfaceCase[] {
  const scenes = scenesOf(readFileSync(file, 'utf8'))
  return Object.entries(SCENES).flatMap(([title, { args, files = {} }]) => {
    const recorded = scenes.get(title)
    if (recorded === undefined) return []
    const run = async () => mismatches(recorded, await runProgram(['--proxy-mode=ipvs', ...args], files))
    return { name: `exit/host.txt ${title}`, run }
  })
}

/** `== title`, then standard error, then `exit CODE`. */
function scenesOf(text: string): ReadonlyMap<string, Recorded> {
  const scenes = new Map<string, Recorded>()
  for (const scene of text.split(/^== /m).slice(1)) {
    const [title = '', ...lines] = scene.trimEnd().split('\n')
    const exit = Number(/^exit (\d+)/.exec(lines.at(-1) ?? '')?.[1] ?? Number.NaN)
    const stderr = lines.slice(0, -1).map((line) => `${line.replaceAll('DIR/', '')}\n`)
    scenes.set(title, { exit, stdout: '', stderr: stderr.join('') })
  }
  return scenes
}
