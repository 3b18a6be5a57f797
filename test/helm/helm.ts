/**
 * Real helm for the tests of the chart: what it renders, or what it says when it refuses. Where there is none a test is skipped
 * with the need `helm`, which `npm run helm` meets on a machine with Go.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { findHelm } from '../../dev/helm/program.ts'
import { deadline } from '../support/deadline.ts'

export const CHART = join(import.meta.dirname, '../../helm')

/** The least that a user has to say. */
export const LEAST = { apiServer: { host: '192.0.2.10' } }

const program = findHelm(process.env)

/** Options of a test or suite that starts helm. */
export const needsHelm = { skip: program === undefined && 'needs helm' }

export interface HelmResult {
  readonly output: string
  /** Empty when helm ended with success. */
  readonly error: string
}

/** Runs helm with values in a file of their own and without the user's configuration. */
export function helm(command: readonly string[], values: object = {}, env: NodeJS.ProcessEnv = {}): HelmResult {
  if (program === undefined) throw new Error('no helm here: use needsHelm')
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-helm-'))
  try {
    const file = join(folder, 'values.yaml')
    writeFileSync(file, stringify(values))
    const { status, stdout, stderr } = spawnSync(program, [...command, '--values', file], {
      encoding: 'utf8',
      timeout: deadline(60_000),
      env: { PATH: process.env['PATH'], HOME: folder, ...env },
    })
    return { output: stdout, error: status === 0 ? '' : stderr || `helm ended with ${status}` }
  } finally {
    rmSync(folder, { recursive: true })
  }
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
