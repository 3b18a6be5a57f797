/**
 * Runs on the test kernel: each file in namespaces of its own. Arguments: a folder for claims, then the files. Prints
 * the kernel's release, then one line of JSON for each file.
 * What could break: stdout carries nothing else. Several guests may share the files: whoever makes a file's folder first
 * runs it.
 */
import { mkdirSync } from 'node:fs'
import { availableParallelism, release } from 'node:os'
import { join } from 'node:path'
import { inNamespaces } from '../kernel/host.ts'
import { runStage } from './stage.ts'

const [claims = '', ...files] = process.argv.slice(2)
const stopped = new AbortController()
process.once('SIGTERM', () => stopped.abort())
process.stdout.write(`${JSON.stringify({ release: release() })}\n`)
await runStage({
  files: claimed(),
  cwd: process.cwd(),
  // Most of them wait for the kernel or for a timer most of the time. A guest with one processor has another one beside it.
  concurrency: availableParallelism() === 1 ? 1 : 2 * availableParallelism(),
  fileTimeoutMs: 300_000,
  signal: stopped.signal,
  env: {},
  wrap: inNamespaces,
  ended: (result) => process.stdout.write(`${JSON.stringify(result)}\n`),
})

/** The files that nobody else has claimed, each claimed when it is asked for. */
function* claimed(): Generator<string> {
  for (const [index, file] of files.entries()) if (claim(String(index))) yield file
}

function claim(name: string): boolean {
  try {
    mkdirSync(join(claims, name))
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}
