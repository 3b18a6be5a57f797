import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { formatProblem } from '../../../src/values/errors.ts'
import { silentLog } from '../../../src/values/log.ts'
import { openManifestsSource } from '../../../src/watch/manifests/manifests-source.ts'
import type { Source } from '../../../src/watch/source.ts'
import { recordingSink, type RecordingSink } from '../recording-sink.ts'
import { until } from '../../support/deadline.ts'

const POLL_MS = 60
const SETTLE_MS = 30

interface Folder {
  readonly path: string
  readonly sink: RecordingSink
  write(name: string, text: string): Promise<void>
  open(): Source
  /** Waits until the folder has been read twice more, so that one reading started after the call. */
  read(): Promise<void>
  /** The Services that the sink has, as `name:port`. */
  services(): readonly string[]
  /** The problems that the sink has, as lines. */
  problems(): readonly string[]
  /** Waits until the sink has these Services, as `name:port`. */
  has(...services: readonly string[]): Promise<void>
  listed(): Promise<void>
}

function service(name: string, port: number | string = 80): string {
  return `apiVersion: v1
kind: Service
metadata: {name: ${name}}
spec: {clusterIP: 10.96.0.10, ports: [{port: ${port}}]}
`
}

/** A new folder, or an existing one. */
async function manifestsFolder(t: TestContext, existing?: string): Promise<Folder> {
  const parent = await mkdtemp(join(tmpdir(), 'kube-ipvs-manifests-'))
  const path = existing ?? join(parent, 'manifests')
  await mkdir(path, { recursive: true })
  const sink = recordingSink()
  let readings = 0
  t.after(() => rm(parent, { recursive: true }))
  const services = (): string[] =>
    [...sink.state].flatMap(([key, value]) => {
      const { name, ports } = value as { name: string; ports: { port: number }[] }
      return key.startsWith('services ') ? [`${name}:${ports[0]?.port}`] : []
    })
  return {
    path,
    sink,
    services,
    problems: () => [...sink.problemsBySubject.values()].flat().map(formatProblem).toSorted(),
    write: (name, text) => writeFile(join(path, name), text),
    open() {
      const source = openManifestsSource({
        directory: path,
        nodeName: 'node0',
        sink,
        log: silentLog,
        pollMs: POLL_MS,
        settleMs: SETTLE_MS,
        onRead: () => readings++,
      })
      t.after(() => source.close())
      return source
    },
    async has(...wanted) {
      await until(`services ${wanted.join()}`, () => services().toSorted().join() === wanted.toSorted().join())
    },
    read: () => {
      const enough = readings + 2
      return until('two readings', () => readings >= enough)
    },
    listed: () => until('listed', () => sink.calls.includes('listed endpointslices')),
  }
}

test('openManifestsSource reads YAML and JSON files and no others', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  await f.write('b.yml', service('b'))
  await f.write(
    'c.json',
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: 'c' },
      spec: { clusterIP: '10.96.0.3', ports: [{ port: 3 }] },
    }),
  )
  await f.write('.hidden.yaml', service('hidden'))
  await f.write('notes.txt', service('notes'))
  await f.write('d.yaml~', service('backup'))
  await mkdir(join(f.path, 'folder.yaml'))
  f.open()
  await f.listed()
  await f.has('a:80', 'b:80', 'c:3')
  assert.deepEqual(f.sink.calls, [
    '+ default/a',
    '+ default/b',
    '+ default/c',
    'listed nodes',
    'listed services',
    'listed endpointslices',
  ])
})

test('openManifestsSource follows files that are added, changed and removed', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  f.open()
  await f.has('a:80')
  await f.write('a.yaml', service('a', 81))
  await f.has('a:81')
  await f.write('b.yaml', service('b'))
  await f.has('a:81', 'b:80')
  await rm(join(f.path, 'a.yaml'))
  await f.has('b:80')
  await f.write('new', service('b', 82))
  await rename(join(f.path, 'new'), join(f.path, 'b.yaml'))
  await f.has('b:82')
})

test('openManifestsSource delivers only the objects of a changed file that differ', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', `${service('a')}---\n${service('b')}`)
  f.open()
  await f.has('a:80', 'b:80')
  const before = f.sink.calls.length
  await f.write('a.yaml', `# a comment\n${service('a')}---\n${service('b', 81)}`)
  await f.has('a:80', 'b:81')
  assert.deepEqual(
    f.sink.calls.slice(before).filter((call) => !call.startsWith('listed')),
    ['+ default/b'],
  )
})

test('openManifestsSource keeps the last good version of a broken file in force', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  f.open()
  await f.has('a:80')
  for (const broken of ['{', service('a', 'http'), service('a', 0)]) {
    await f.write('a.yaml', broken)
    await until('problem', () => f.sink.troubles.has('a.yaml'))
    await f.has('a:80')
    await f.write('a.yaml', service('a'))
    await until('no problem', () => !f.sink.troubles.has('a.yaml'))
  }
  assert.deepEqual(
    f.sink.calls.filter((call) => call.includes('default/a')),
    ['+ default/a'],
  )
})

test('openManifestsSource starts with the usable objects of a broken file, and completes its lists', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', `${service('a')}---\n${service('b', 'http')}`)
  await f.write('c.yaml', '{')
  f.open()
  await f.listed()
  await f.has('a:80')
  assert.deepEqual([...f.sink.troubles.keys()].toSorted(), ['a.yaml', 'c.yaml'])
})

test('openManifestsSource uses an object of two files from the first by name, and reports the other', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('b.yaml', service('a', 81))
  await f.write('a.yaml', service('a', 80))
  f.open()
  await f.has('a:80')
  assert.deepEqual(Object.fromEntries(f.sink.troubles), { 'b.yaml': [': duplicate-object'] })
  await rm(join(f.path, 'a.yaml'))
  await f.has('a:81')
  assert.equal(f.sink.troubles.size, 0)
})

test('openManifestsSource does not treat a file that is being written as an empty one', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  f.open()
  await f.has('a:80')
  // The clock does not advance, so no change lasts long enough to count.
  const stopped = t.mock.method(performance, 'now', () => 1_000_000)
  for (let round = 0; round < 3; round++) {
    await f.write('a.yaml', '')
    await f.read()
    await f.write('a.yaml', service('a'))
    await f.read()
    await rename(join(f.path, 'a.yaml'), join(f.path, 'a.bak'))
    await f.read()
    await f.write('a.yaml', service('a'))
    await f.read()
  }
  const calls = (): string[] => f.sink.calls.filter((call) => call.includes('default/a'))
  assert.deepEqual(calls(), ['+ default/a'])
  await f.write('a.yaml', '')
  stopped.mock.restore()
  await until('an empty file', () => calls().length === 2)
  assert.deepEqual(calls(), ['+ default/a', '- default/a'])
})

test('openManifestsSource never treats a missing folder as an empty one', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  await rename(f.path, `${f.path}.away`)
  f.open()
  await until('problem', () => f.sink.troubles.has(f.path))
  assert.deepEqual(f.sink.calls, [])
  await rename(`${f.path}.away`, f.path)
  await f.has('a:80')
  assert.equal(f.sink.troubles.size, 0)
  await rename(f.path, `${f.path}.away`)
  await until('problem', () => f.sink.troubles.has(f.path))
  await f.read()
  await f.read()
  await f.has('a:80')
  await rename(`${f.path}.away`, f.path)
  await f.write('a.yaml', service('a', 81))
  await f.has('a:81')
})

test('openManifestsSource keeps its objects when an empty folder replaces the first', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  f.open()
  await f.has('a:80')
  // The same happens when a file system is unmounted.
  await rename(f.path, `${f.path}.away`)
  await mkdir(f.path)
  await until('problem', () => f.sink.troubles.get(f.path)?.[0] === ': empty-folder')
  await f.has('a:80')
  await f.write('b.yaml', service('b'))
  await f.has('b:80')
  assert.equal(f.sink.troubles.size, 0)
})

test('openManifestsSource removes all objects when the files of its folder are removed', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  await f.write('b.yaml', service('b'))
  f.open()
  await f.has('a:80', 'b:80')
  for (const name of ['a.yaml', 'b.yaml']) await rm(join(f.path, name))
  await f.has()
  assert.equal(f.sink.troubles.size, 0)
})

test('openManifestsSource refuses a file of more than 2 MiB and keeps its last good version', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  f.open()
  await f.has('a:80')
  await f.write('a.yaml', `${service('a', 81)}${'#'.repeat(2 * 1024 * 1024)}`)
  await until('problem', () => f.sink.troubles.get('a.yaml')?.[0] === ': unreadable-file')
  await f.has('a:80')
  await f.write('a.yaml', service('a', 81))
  await f.has('a:81')
})

test('openManifestsSource continues after a failed reading, and delivers its changes later', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  let failures = 2
  const { apply } = f.sink
  f.sink.apply = (changes) => {
    if (failures-- > 0) throw new Error('a mistake')
    apply(changes)
  }
  f.open()
  await until('problem', () => f.sink.troubles.get(f.path)?.[0] === ': manifests-failed')
  await f.has('a:80')
  await f.listed()
  await f.write('a.yaml', service('a', 81))
  await f.has('a:81')
  assert.equal(f.sink.troubles.size, 0)
})

test('openManifestsSource survives a YAML map that cannot be converted to text', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  await f.write('b.yaml', 'apiVersion: {toString: 1, valueOf: 1}\n')
  f.open()
  await f.has('a:80')
  await f.listed()
  assert.deepEqual(f.sink.troubles.get('b.yaml'), ['kind: missing-field'])
})

test('openManifestsSource makes no call to its sink after close', async (t) => {
  const f = await manifestsFolder(t)
  await f.write('a.yaml', service('a'))
  const source = f.open()
  await f.listed()
  await source.close()
  const calls = f.sink.calls.length
  await f.write('a.yaml', service('a', 81))
  // A second source on the same folder shows that there was time to read the change.
  const other = await manifestsFolder(t, f.path)
  other.open()
  await other.has('a:81')
  assert.equal(f.sink.calls.length, calls)
})

test('openManifestsSource says that Endpoints are not read, where a Service has no EndpointSlice', async (t) => {
  const f = await manifestsFolder(t)
  const endpoints = (name: string): string =>
    `apiVersion: v1\nkind: Endpoints\nmetadata: {name: ${name}}\nsubsets: [{addresses: [{ip: 10.244.0.5}], ports: [{port: 8080}]}]\n`
  const slice = (name: string, version: string): string =>
    `apiVersion: discovery.k8s.io/${version}\nkind: EndpointSlice\nmetadata: {name: ${name}-1, labels: {kubernetes.io/service-name: ${name}}}\naddressType: IPv4\n`
  await f.write('a.yaml', [service('a'), endpoints('a'), endpoints('b'), endpoints('without-service')].join('---\n'))
  await f.write('b.yaml', service('b'))
  await f.write('c.yaml', `${service('c')}---\n${slice('c', 'v1beta1')}`)
  f.open()
  await f.has('a:80', 'b:80', 'c:80')
  await f.listed()
  assert.deepEqual(f.problems(), [
    'a.yaml:6: kind Endpoints is not read, so the Service default/a has no endpoints: write an EndpointSlice (discovery.k8s.io/v1) with the label kubernetes.io/service-name: a; the same for 1 more',
    'c.yaml:6: kind discovery.k8s.io/v1beta1 EndpointSlice is not read, so the Service default/c has no endpoints: write an EndpointSlice (discovery.k8s.io/v1) with the label kubernetes.io/service-name: c',
  ])
  // The file is correct, so that a change of it counts.
  await f.write('a.yaml', [service('a', 81), endpoints('a')].join('---\n'))
  await until('the change', () => f.services().includes('a:81'))
  // A copy of a cluster has both kinds.
  await f.write('slices.yaml', ['a', 'b', 'c'].map((name) => slice(name, 'v1')).join('---\n'))
  await until('no problem', () => f.problems().length === 0)
})
