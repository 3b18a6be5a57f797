/** The kernel loads a module for a process that has no modprobe, and for none without CAP_SYS_MODULE. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { inContainer, type Container } from '../../support/container-runtime.ts'
import { needs } from '../needs.ts'

/** No test uses it. */
const MODULE = 'arp_tables'
const REQUEST = new URL('../../../native/module-request.ts', import.meta.url).pathname
const CALL = `import { requestModule } from '${REQUEST}'; requestModule('${MODULE}')`

const isLoaded = (): boolean => readFileSync('/proc/modules', 'utf8').includes(`${MODULE} `)

function request(container: Container): void {
  const [program, ...args] = inContainer(container, [process.execPath, '--input-type=module', '-e', CALL])
  const { status, stderr } = spawnSync(program, args, { encoding: 'utf8', env: { PATH: '/nothing' } })
  assert.equal(status, 0, stderr)
}

describe('requestModule', needs(`loadable:${MODULE}`), () => {
  it('does nothing without CAP_SYS_MODULE', () => {
    request({ capabilities: ['NET_ADMIN', 'NET_RAW'] })
    assert.equal(isLoaded(), false)
  })

  it('makes the kernel load a module in a privileged container', () => {
    request({ privileged: true, capabilities: [] })
    assert.equal(isLoaded(), true)
  })
})
