import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { ProxyMode } from '../../src/config/types.ts'
import { ConfigReload } from '../../src/daemon/config-reload.ts'
import { formatConfigurationErrors, loadConfiguration } from '../../src/config/load.ts'
import type { KubeProxyConfiguration } from '../../src/config/types.ts'
import { eventually } from '../support/deadline.ts'
import { recordingLog } from '../support/recording-log.ts'

const text = (more: object = {}): string =>
  JSON.stringify({
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'ipvs',
    ...more,
  })

/** Writes a file in one step: a look in between would find it empty. */
function replaceFile(path: string, content: string): void {
  writeFileSync(`${path}.new`, content)
  renameSync(`${path}.new`, path)
}

async function read(path: string): Promise<KubeProxyConfiguration> {
  const result = loadConfiguration(await readFile(path, 'utf8'), path)
  if ('errors' in result) throw new Error(formatConfigurationErrors(result.errors))
  return result.configuration
}

/** A folder with a configuration file that is followed, and what its listener received. */
async function followed(t: TestContext, make = (path: string) => replaceFile(path, text()), mode: ProxyMode = 'ipvs') {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-reload-'))
  const path = join(folder, 'config.conf')
  make(path)
  const log = recordingLog()
  const applied: (readonly string[])[] = []
  const fatal: string[] = []
  let reads = 0
  const reload = new ConfigReload({
    path,
    configuration: await read(path),
    mode: () => mode,
    read: () => {
      reads++
      return read(path)
    },
    listener: {
      changed: (_, fields) => applied.push(fields),
      failed: (error) => fatal.push(error.message),
    },
    log,
    pollMs: 10,
  })
  reload.start()
  t.after(() => {
    reload.close()
    rmSync(folder, { recursive: true })
  })
  await eventually(() => assert.equal(reads, 1))
  const errors = (): number => log.lines.filter(({ level }) => level === 'error').length
  return { folder, path, log, applied, fatal, errors, reads: () => reads }
}

test('ConfigReload reports live fields after a write in place and after a rename', async (t) => {
  const { folder, path, applied, fatal } = await followed(t)
  replaceFile(path, text({ logging: { verbosity: 3 } }))
  await eventually(() => assert.deepEqual(applied, [['logging.verbosity']]))
  replaceFile(join(folder, 'new'), text({ logging: { verbosity: 3 }, nodePortAddresses: ['primary'] }))
  renameSync(join(folder, 'new'), path)
  await eventually(() => assert.deepEqual(applied[1], ['nodePortAddresses']))
  replaceFile(path, text())
  await eventually(() => assert.deepEqual(applied[2], ['logging.verbosity', 'nodePortAddresses']))
  assert.deepEqual(fatal, [])
})

/** What kubelet does with a ConfigMap: it makes a new folder and switches `..data` to it in one step. */
function swap(folder: string, version: number, content: string): void {
  mkdirSync(join(folder, `..${version}`))
  replaceFile(join(folder, `..${version}`, 'config.conf'), content)
  symlinkSync(`..${version}`, join(folder, '..next'))
  renameSync(join(folder, '..next'), join(folder, '..data'))
  rmSync(join(folder, `..${version - 1}`), { recursive: true, force: true })
}

test("ConfigReload notices each swap of kubelet's symbolic link", async (t) => {
  const { folder, applied } = await followed(t, (path) => {
    swap(join(path, '..'), 1, text())
    symlinkSync('..data/config.conf', path)
  })
  swap(folder, 2, text({ oomScoreAdj: 1 }))
  await eventually(() => assert.equal(applied.length, 1))
  swap(folder, 3, text({ oomScoreAdj: 2 }))
  await eventually(() => assert.equal(applied.length, 2))
})

test('ConfigReload fails for any other change and names the fields', async (t) => {
  const { path, applied, fatal } = await followed(t)
  replaceFile(path, text({ logging: { verbosity: 3 }, clusterCIDR: '10.0.0.0/8', ipvs: { scheduler: 'lc' } }))
  await eventually(() =>
    assert.deepEqual(fatal, [
      "content of the proxy server's configuration file was updated: a new process has to take over clusterCIDR, ipvs.scheduler",
    ]),
  )
  assert.deepEqual(applied, [])
})

test('ConfigReload logs fields without effect in the mode, and passes them on for another mode', async (t) => {
  const { path, log, applied, fatal } = await followed(t)
  replaceFile(path, text({ iptables: { localhostNodePorts: false } }))
  await eventually(() => {
    const line = log.lines.find(({ message }) => message === 'Configuration file changed in fields without effect here')
    assert.deepEqual(line?.fields['fields'], ['iptables.localhostNodePorts'])
  })
  assert.deepEqual([applied, fatal], [[[]], []])
})

test('ConfigReload logs an invalid file and a missing file once each and keeps the previous configuration', async (t) => {
  const { path, log, applied, fatal, errors, reads } = await followed(t)
  replaceFile(path, 'mode: [')
  await eventually(() => assert.equal(errors(), 1))
  // Written again with the same content.
  replaceFile(path, 'mode: [')
  rmSync(path)
  await eventually(() => assert.equal(errors(), 2))
  const before = reads()
  replaceFile(path, text())
  await eventually(() => assert.equal(reads(), before + 1))
  replaceFile(path, text({ oomScoreAdj: 5 }))
  await eventually(() => assert.deepEqual(applied, [['oomScoreAdj']]))
  assert.equal(errors(), 2)
  assert.match(log.lines[0]?.message ?? '', /invalid; the previous configuration stays in force/)
  assert.deepEqual(fatal, [])
})

test('ConfigReload reports nothing when the configuration is the same', async (t) => {
  const { path, log, reads } = await followed(t)
  replaceFile(path, text())
  // Another spelling of the same configuration.
  replaceFile(path, `${text()}\n`)
  await eventually(() => assert.equal(reads(), 2))
  // The first line is that of a change without effect here: the earlier changes were not logged.
  replaceFile(path, `${text({ winkernel: { networkName: 'x' } })}\n`)
  await eventually(() => assert.equal(log.lines.length, 1))
  assert.deepEqual(log.lines[0]?.fields['fields'], ['winkernel.networkName'])
})

test('ConfigReload ends with the last content when the file changes while it is read, and changes back', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-reload-'))
  const path = join(folder, 'config.conf')
  replaceFile(path, text())
  const levels: number[] = []
  let disturb = false
  const reload = new ConfigReload({
    path,
    configuration: await read(path),
    mode: () => 'ipvs',
    read: async () => {
      if (disturb) replaceFile(path, text({ logging: { verbosity: 9 } }))
      const configuration = await read(path)
      if (disturb) replaceFile(path, text({ logging: { verbosity: 3 } }))
      disturb = false
      return configuration
    },
    listener: { changed: ({ logging }) => void levels.push(logging.verbosity), failed: () => undefined },
    log: recordingLog(),
    pollMs: 10,
  })
  t.after(() => {
    reload.close()
    rmSync(folder, { recursive: true })
  })
  disturb = true
  replaceFile(path, text({ logging: { verbosity: 3 } }))
  reload.start()
  await eventually(() => assert.deepEqual(levels, [9, 3]))
})

test('ConfigReload reports nothing after it was closed', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-reload-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'config.conf')
  replaceFile(path, text())
  const before = await read(path)
  replaceFile(path, text({ logging: { verbosity: 3 } }))
  const reads: (() => void)[] = []
  const reported: unknown[] = []
  const log = recordingLog()
  const reload = new ConfigReload({
    path,
    configuration: before,
    mode: () => 'ipvs',
    read: () => new Promise((resolve) => reads.push(() => resolve(read(path)))),
    listener: { changed: (...call) => reported.push(call), failed: (error) => reported.push(error) },
    log,
    pollMs: 10,
  })
  reload.start()
  await eventually(() => assert.equal(reads.length, 1))
  reload.close()
  reads[0]?.()
  await new Promise((resolve) => setTimeout(resolve, 50))
  assert.deepEqual([reported, log.lines], [[], []])
})
