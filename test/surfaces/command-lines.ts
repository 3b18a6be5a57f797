/**
 * Groups of command lines: those recorded with their files (config/flag-cases.json), starts that
 * must fail because there is nothing to connect to (exit/host.txt), and the flags in kube-proxy's
 * --help (config/flags.txt).
 */
import { readFileSync } from 'node:fs'
import type { Flag } from '../../src/start/flag.ts'
import { FLAGS } from '../../src/start/flags.ts'
import { mismatches, type Recorded } from './compare.ts'
import { runProgram } from './program.ts'
import type { Recordings, SurfaceCase } from './surface-case.ts'

interface RecordedCommandLine extends Recorded {
  readonly group: string
  readonly name: string
  readonly args: readonly string[]
  readonly files: Readonly<Record<string, string>>
}

const COMMAND_LINES_FILE = 'config/flag-cases.json'
const FLAGS_FILE = 'config/flags.txt'
const STARTS_FILE = 'exit/host.txt'

export const COMMAND_LINES: readonly Recordings[] = [
  { path: COMMAND_LINES_FILE, read: commandLines },
  { path: FLAGS_FILE, read: flagNames },
  { path: STARTS_FILE, read: starts },
]

/** Each runs in an empty folder with the files of the case. */
function commandLines(file: string): SurfaceCase[] {
  const { cases } = JSON.parse(readFileSync(file, 'utf8')) as { cases: RecordedCommandLine[] } // the recorder's format
  return cases.map((recorded) => ({
    name: `${COMMAND_LINES_FILE} ${recorded.group}: ${recorded.name}`,
    run: async () => mismatches(recorded, await runProgram(recorded.args, recorded.files)),
  }))
}

interface Start {
  readonly args: readonly string[]
  readonly files?: Readonly<Record<string, string>>
}

/** The command line of each recorded scene, by the title of the scene, which is all that the recording names. */
const SCENES: Readonly<Record<string, Start>> = {
  'kubeconfig file missing': { args: ['--kubeconfig=/nonexistent'] },
  'kubeconfig not YAML': { args: ['--kubeconfig=bad.conf'], files: { 'bad.conf': 'a: [\nb: c\n' } },
  'kubeconfig empty file': { args: ['--kubeconfig=empty.conf'], files: { 'empty.conf': '' } },
  'no kubeconfig, no --master, not in a cluster': { args: [] },
}

function starts(file: string): SurfaceCase[] {
  const scenes = scenesOf(readFileSync(file, 'utf8'))
  return Object.entries(SCENES).flatMap(([title, { args, files = {} }]) => {
    const recorded = scenes.get(title)
    if (recorded === undefined) return []
    const run = async () => mismatches(recorded, await runProgram(['--proxy-mode=ipvs', ...args], files))
    return { name: `${STARTS_FILE} ${title}`, run }
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

/**
 * A line of kube-proxy's --help: `      --bind-address ip      Overrides…`, `  -v, --v Level   number…`; two spaces follow
 * the name of a flag without a value.
 */
const FLAG_LINE = /^ {2,6}(?:-(\w), )?--([\w-]+)(\[=\w+\])?(?: (?=\S))?(\S*)/

/** Each flag of kube-proxy exists here, takes a value where it does there, and is in our --help. */
function flagNames(file: string): SurfaceCase[] {
  const flags: readonly Flag[] = Object.values(FLAGS)
  let help: Promise<string> | undefined
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => FLAG_LINE.exec(line) ?? [])
    .filter((part): part is string => typeof part === 'string' && /^ {2,6}-/.test(part))
    .map((text) => {
      const [, short, name = '', , type = ''] = FLAG_LINE.exec(text) ?? []
      return {
        name: `${FLAGS_FILE} --${name}`,
        run: async () => {
          const flag = flags.find((one) => one.name === name && one.commands.includes('run'))
          if (flag === undefined) return [`there is no flag --${name}`]
          help ??= runProgram(['--help'], {}).then(({ stdout }) => stdout)
          const takesValue = flag.kind !== 'boolean' && flag.kind !== 'version'
          return [
            ...(flag.short === short ? [] : [`the short form is ${flag.short ?? 'none'}, not ${short ?? 'none'}`]),
            ...(takesValue === (type !== '') || name === 'version'
              ? []
              : [takesValue ? 'it takes a value' : 'it takes no value']),
            ...((await help).includes(`--${name}`) ? [] : ['--help does not name it']),
          ]
        },
      }
    })
}
