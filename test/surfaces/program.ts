/**
 * Runs the bundled program with a recorded command line in an empty folder. A case may really start
 * the daemon, so it runs in a new network namespace where this user may make one, unless it only
 * writes a file.
 */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { bundle } from '../../dev/bundle.ts'

const ROOT = join(import.meta.dirname, '../..')
/** A start that fails has failed by then. */
const RUN_MS = 20_000

export interface Outcome {
  /** -1: ended by a signal, or not at all. */
  readonly exit: number
  readonly stdout: string
  readonly stderr: string
  /** The content of out.yaml afterwards. */
  readonly written: string | undefined
}

let made: Promise<string> | undefined

/** The bundle, made once for a run of all cases. Inside the repository, where it finds koffi. */
export function programEntry(): Promise<string> {
  made ??= (async () => {
    mkdirSync(join(ROOT, '.cache'), { recursive: true })
    const directory = mkdtempSync(join(ROOT, '.cache/surfaces-'))
    process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
    return (await bundle({ directory })).entry
  })()
  return made
}

/**
 * `unshare -n` where this user may do that. Found out once, because making a namespace takes long
 * on a busy machine.
 */
let prefix: readonly string[] | undefined
function isolation(): readonly string[] {
  prefix ??= [['-n'], ['-rn']].map((flags) => ['unshare', ...flags]).find(works) ?? []
  return prefix
}

function works([program = '', ...flags]: readonly string[]): boolean {
  return spawnSync(program, [...flags, 'true'], { stdio: 'ignore' }).status === 0
}

/** Runs a command line with `files` in its folder. */
export async function runProgram(args: readonly string[], files: Readonly<Record<string, string>>): Promise<Outcome> {
  const entry = await programEntry()
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-surface-'))
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    }
    const writes = args.some((argument) => /^--write.config.to=./.test(argument))
    const [program = '', ...rest] = [...(writes ? [] : isolation()), process.execPath, entry, ...args]
    const ended = await new Promise<Omit<Outcome, 'written'>>((resolve) => {
      const options = { cwd: folder, env: environment(), timeout: RUN_MS, maxBuffer: 64 * 1024 * 1024 }
      const child = execFile(program, rest, options, (_, stdout, stderr) =>
        resolve({ exit: child.exitCode ?? -1, stdout, stderr }),
      )
    })
    const out = join(folder, 'out.yaml')
    return { ...ended, written: existsSync(out) ? readFileSync(out, 'utf8') : undefined }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Without the variables of a Pod that this may run in. */
function environment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(KUBERNETES_|KUBE_IPVS|KUBECONFIG|NODE_OPTIONS)/.test(name)),
  )
}
