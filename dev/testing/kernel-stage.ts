/**
 * Runs on the test kernel: each file in namespaces of its own. Arguments: the files. Prints the kernel's release, then
 * one line of JSON for each file.
 * What could break: stdout carries nothing else.
 */
import { availableParallelism, release } from 'node:os'
import { inNamespaces } from '../kernel/host.ts'
import { runStage } from './stage.ts'

const stopped = new AbortController()
process.once('SIGTERM', () => stopped.abort())
process.stdout.write(`${JSON.stringify({ release: release() })}\n`)
await runStage({
  files: process.argv.slice(2),
  cwd: process.cwd(),
  concurrency: Math.min(2, availableParallelism()),
  fileTimeoutMs: 300_000,
  signal: stopped.signal,
  wrap: inNamespaces,
  ended: (result) => process.stdout.write(`${JSON.stringify(result)}\n`),
})
