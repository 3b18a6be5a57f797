/**
 * Real helm for the tests of the chart: what it renders, or what it says when it refuses. Where
 * there is none a test is skipped with a need that names the command which meets it.
 */
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { stringify } from 'yaml'
import { findHelm } from '../../dev/helm/program.ts'
import { errorText } from '../../src/values/errors.ts'
import { deadline } from '../support/deadline.ts'

export const CHART = join(import.meta.dirname, '../../helm')

/** The least that a user has to say. */
export const LEAST = { apiServer: { host: '192.0.2.10' } }

const program = findHelm(process.env)

/** Options of a test or suite that starts helm. */
export const needsHelm = { skip: program === undefined && 'needs helm, which npm run helm builds' }

export interface HelmResult {
  readonly output: string
  /** Empty when helm ended with success. */
  readonly error: string
}

/** Runs helm with values in a file of their own and without the user's configuration. */
export function helm(command: readonly string[], values: object = {}): HelmResult {
  return inFolder((folder, call) => {
    const { status, stdout, stderr } = spawnSync(...call(command, values), { ...optionsIn(folder), encoding: 'utf8' })
    return { output: stdout, error: status === 0 ? '' : stderr || `helm ended with ${status}` }
  })
}

/** The same against the cluster of a kubeconfig that this process may serve. Without values helm gets none. */
export async function helmWith(
  command: readonly string[],
  values: object | undefined,
  kubeconfig: string,
): Promise<HelmResult> {
  return inFolder(async (folder, call) => {
    const file = join(folder, 'kubeconfig')
    writeFileSync(file, kubeconfig, { mode: 0o600 })
    const options = optionsIn(folder)
    const child = promisify(execFile)(...call(command, values), {
      ...options,
      env: { ...options.env, KUBECONFIG: file },
    })
    return child.then(
      ({ stdout }) => ({ output: stdout, error: '' }),
      (error: unknown) => ({ output: '', error: errorText(error) }),
    )
  })
}

type Call = (command: readonly string[], values: object | undefined) => [program: string, args: string[]]

/** Runs something in a folder that is removed afterwards. `call` writes the values there. */
function inFolder<T>(run: (folder: string, call: Call) => T): T {
  if (program === undefined) throw new Error('no helm here: use needsHelm')
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-helm-'))
  const remove = (): void => rmSync(folder, { recursive: true })
  const call: Call = (command, values) => {
    const file = join(folder, 'values.yaml')
    if (values !== undefined) writeFileSync(file, stringify(values))
    return [program, [...command, ...(values === undefined ? [] : ['--values', file])]]
  }
  const result = run(folder, call)
  if (result instanceof Promise) void result.finally(remove)
  else remove()
  return result
}

function optionsIn(folder: string) {
  return { timeout: deadline(60_000), env: { PATH: process.env['PATH'], HOME: folder } }
}

/** `helm template` of the chart. */
export function render(values: object, ...more: readonly string[]): HelmResult {
  return helm(
    ['template', 'kube-ipvs', CHART, '--namespace', 'kube-system', '--kube-version', '1.36.0', ...more],
    values,
  )
}

/** What helm says without the place in the chart and the hint about --debug. */
export function reasonOf({ error }: HelmResult): string {
  return error
    .replace(/\n\nUse --debug[^]*$/, '')
    .replace(/^Error: (?:execution error at \(.*?\): )?/, '')
    .trim()
}
