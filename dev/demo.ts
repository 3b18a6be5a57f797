/**
 * `npm start`: runs the demo's session on the chosen kernel and prints its output. With
 * `--output json` stdout gets only the session's JSON object.
 */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { bundle } from './bundle.ts'
import { DEADLINE_FACTOR_VARIABLE } from './kernel/calibrate.ts'
import { chosenKernel, describeKernel } from './kernel/choice.ts'
import { runInKernel } from './kernel/run.ts'
import { endWithParent } from './parent.ts'

const project = join(import.meta.dirname, '..')
const onceTimeoutMs = 5 * 60_000
/** How much longer everything takes in qemu, which has to emulate a processor on most machines. */
const qemuFactor = 5

const stopped = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopped.abort())
endWithParent(stopped)

process.exitCode = await main()

async function main(): Promise<number> {
  const options = readOptions()
  if (typeof options === 'string') {
    process.stderr.write(`${options}; npm start -- --help lists the options\n`)
    return 1
  }
  const choice = chosenKernel(process.env)
  if (choice === undefined) {
    process.stderr.write('no kernel was chosen: start this as npm start, without KUBE_IPVS_SKIP_KERNEL\n')
    return 1
  }
  const terminal = process.stdout.isTTY === true
  const follow = terminal && !options.once && !options.json
  const factor = Number(process.env[DEADLINE_FACTOR_VARIABLE]) || (choice.kind === 'qemu' ? qemuFactor : 1)
  process.stderr.write(`Starting ${describeKernel(choice)} ...\n`)
  try {
    const { entry } = await bundle()
    return await runInKernel(choice, {
      command: [process.execPath, join(import.meta.dirname, 'demo/session.ts'), entry],
      cwd: project,
      env: {
        ...process.env,
        KUBE_IPVS_DEMO_JSON: options.json ? '1' : '0',
        KUBE_IPVS_DEMO_TERMINAL: terminal ? '1' : '0',
        KUBE_IPVS_DEMO_FOLLOW: follow ? '1' : '0',
        [DEADLINE_FACTOR_VARIABLE]: String(factor),
      },
      timeoutMs: follow ? 0 : onceTimeoutMs * Math.max(1, factor),
      signal: stopped.signal,
      liveFolders: [join(project, 'examples')],
      stdout: (chunk) => process.stdout.write(chunk),
      stderr: (chunk) => process.stderr.write(chunk),
    })
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    return 1
  }
}

/** The options, or the error in them. */
function readOptions(): { once: boolean; json: boolean } | string {
  try {
    const { values } = parseArgs({ options: { once: { type: 'boolean' }, output: { type: 'string' } } })
    if (values.output !== undefined && !['json', 'text'].includes(values.output)) return '--output is text or json'
    return { once: values.once === true, json: values.output === 'json' }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
