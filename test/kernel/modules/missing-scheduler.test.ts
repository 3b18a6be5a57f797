/**
 * A Service chooses a scheduler whose module the kernel may not load: the default serves it, and
 * the Service gets a problem.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { Workbench } from '../../support/daemon.ts'
import { service, slice } from '../../support/manifests.ts'
import { virtualServers } from '../../support/kernel-state.ts'
import { eventually } from '../../support/deadline.ts'
import { needs } from '../needs.ts'

const MODULE = 'ip_vs_lblcr'
/** The program that the kernel starts to load a module. */
const MODPROBE = '/proc/sys/kernel/modprobe'
/** This kernel is slower than the others. */
const START_MS = 30_000

describe('a scheduler of a Service that the kernel lacks', needs(`loadable:${MODULE}`), () => {
  let bench: Workbench
  let daemon: ChildProcess
  let modprobe: string
  /** The Service with these annotations. */
  const write = (annotations: Readonly<Record<string, string>>, endpoint = '10.244.0.5'): void => {
    const web = service('web', { clusterIP: '10.96.0.1' })
    const metadata = { ...(web['metadata'] as object), annotations }
    bench.write('web.yaml', { ...web, metadata }, slice('web', [endpoint]))
  }
  before(async () => {
    modprobe = readFileSync(MODPROBE, 'utf8').trim()
    bench = new Workbench()
    write({})
    bench.write('other.yaml', service('other', { clusterIP: '10.96.0.2' }), slice('other', ['10.244.0.6']))
    // The kernel loads everything else that ipvs mode needs.
    daemon = bench.start()
    await eventually(() => assert.deepEqual(schedulers(), ['10.96.0.1:80 -s rr', '10.96.0.2:80 -s rr']), START_MS)
  })
  after(async () => {
    writeFileSync(MODPROBE, modprobe)
    await bench.close()
  })

  const schedulers = (): readonly string[] =>
    virtualServers().flatMap((line) => /^-A -t (\S+ -s \w+)/.exec(line)?.[1] ?? [])

  it('leaves the default in force, with one problem and one Event of that Service', async () => {
    writeFileSync(MODPROBE, '/bin/false')
    write({ 'kube-ipvs.io/scheduler': 'lblcr' })
    const reported = /"Event occurred" object="demo\/web" .*reason="SchedulerMissing".*ip_vs_lblcr/g
    await eventually(() => assert.equal(bench.log.match(reported)?.length, 1))
    write({ 'kube-ipvs.io/scheduler': 'lblcr', 'kube-ipvs.io/drain-deadline': '1m' }, '10.244.0.7')
    await eventually(() => assert.ok(virtualServers().some((line) => line.includes('-r 10.244.0.7:8080 -m -w 1'))))
    await bench.stop(daemon)
    assert.deepEqual(schedulers(), ['10.96.0.1:80 -s rr', '10.96.0.2:80 -s rr'])
    assert.equal(bench.log.split('code="scheduler-missing"').length - 1, 1)
  })

  it('is in force when the kernel has it at a start', async () => {
    writeFileSync(MODPROBE, modprobe)
    daemon = bench.start()
    await eventually(() => assert.deepEqual(schedulers(), ['10.96.0.1:80 -s lblcr', '10.96.0.2:80 -s rr']), START_MS)
    await bench.stop(daemon)
  })
})
