/** What the API server, kubeconfigs, plugins and manifests say: objects in both encodings, streams of a watch, YAML. */
import { isDeepStrictEqual } from 'node:util'
import { readFileSync } from 'node:fs'
import {
  decodeObject,
  decodeWatchEvent,
  encodingOf,
  FrameSplitter,
  LineSplitter,
  textWithoutManagedFields,
} from '../../../../src/watch/api/encodings.ts'
import { ExecLogin, parseExecPlugin } from '../../../../src/watch/api/exec-plugin.ts'
import { loadKubeconfig } from '../../../../src/watch/api/kube-config-load.ts'
import { ProtobufReader } from '../../../../src/watch/api/protobuf.ts'
import { jsonSize } from '../../../../src/doctor/json-size.ts'
import { parseManifestFile } from '../../../../src/watch/manifests/manifest-file.ts'
import { createIntern, isObject } from '../../../../src/watch/objects/findings.ts'
import { parseMetadata, parseObject } from '../../../../src/watch/objects/object-parser.ts'
import { isSelected } from '../../../../src/watch/objects/selection.ts'
import { AnnotationReader } from '../../../../src/service/annotations.ts'
import type { ObjectKind } from '../../../../src/service/objects.ts'
import { parseAddress } from '../../../../src/values/address.ts'
import { CodedError } from '../../../../src/values/errors.ts'
import { SERVICE_ANNOTATION } from '../../../../src/values/well-known.ts'
import { encodeEnvelope, encodeEventFrame, encodeMessage } from '../../../api-server/protobuf.ts'
import { rule, type Target, unlessRefused } from '../target.ts'

const KINDS: readonly ObjectKind[] = ['services', 'endpointslices', 'nodes']
const BAD_ANSWER = ['api-bad-response', 'api-line-too-long']
const intern = createIntern()
const annotations = new AnnotationReader('rr')

/** Reads an object as each kind, as a watch does with what it has decoded. */
function readObject(json: unknown, origin: 'api' | 'manifest' = 'api'): void {
  for (const kind of KINDS) {
    const metadata = parseMetadata(kind, json, intern)
    if (metadata === undefined) continue
    isSelected(kind, metadata, json, 'node0')
    const { change, problems } = parseObject(kind, json, metadata, intern, origin)
    rule(problems.length <= 20, 'an object has at most 20 problems')
    if (change.value === undefined) continue
    rule(
      problems.every(({ message }) => message.length < 2000),
      'a message about an object is short',
    )
    if (change.kind === 'services') annotations.read(change.value.annotations)
    if (change.kind === 'endpointslices')
      for (const { address } of change.value.endpoints)
        rule(parseAddress(address) === address, 'an endpoint has an address')
  }
}

/** Lists hold objects. */
function readAnswer(json: unknown): void {
  readObject(json)
  const items = isObject(json) ? json['items'] : undefined
  if (Array.isArray(items)) for (const item of items.slice(0, 50)) readObject(item)
}

const reader = new ProtobufReader()

/** The same bytes in one chunk and in several give the same events, or the same refusal. */
function inChunks(input: Uint8Array, type: string): void {
  const events = (sizes: readonly number[]): readonly unknown[] | string => {
    const stream = encodingOf(type).openStream()
    const found: unknown[] = []
    try {
      let at = 0
      for (const size of [...sizes, input.length]) {
        // It may overwrite what it is given.
        for (const event of stream.push(Buffer.from(input.slice(at, at + size)))) found.push(event)
        at += size
      }
    } catch (error) {
      if (!(error instanceof CodedError) || !BAD_ANSWER.includes(error.code)) throw error
      return error.code
    }
    return found
  }
  const whole = events([])
  const first = input[input.length - 1] ?? 1
  const parts = events([first % 7, 1 + (first % 3), first])
  if (typeof whole === 'string' || typeof parts === 'string') return
  rule(isDeepStrictEqual(whole, parts), 'a stream in chunks has the same events')
  for (const event of whole) if (isObject(event)) readObject(event['object'])
}

/** An object of Kubernetes as the recordings have it, in JSON. */
function recorded(name: string): string {
  const text = readFileSync(new URL(`../../../../test/recordings/api/${name}.response`, import.meta.url), 'utf8')
  return text.slice(text.indexOf('\n\n') + 2)
}

interface Recorded {
  readonly kind: string
  readonly apiVersion: string
  readonly items?: readonly Record<string, unknown>[]
}

const OBJECTS = ['services-list', 'slices-list'].flatMap((name) => {
  const { kind, apiVersion, items = [] } = JSON.parse(recorded(name)) as Recorded // as the API server wrote it
  return items.slice(0, 4).map((item) => ({ ...item, apiVersion, kind: kind.replace(/List$/, '') }))
})

const envelopes = (): Uint8Array[] =>
  OBJECTS.map(
    (object) => new Uint8Array(encodeEnvelope(object.apiVersion, object.kind, encodeMessage(object.kind, object))),
  )

const FIELDS = [
  'metadata',
  'name',
  'namespace',
  'labels',
  'annotations',
  'spec',
  'ports',
  'port',
  'nodePort',
  'protocol',
  'TCP',
  'SCTP',
  'clusterIP',
  'clusterIPs',
  'None',
  'externalIPs',
  '192.0.2.1',
  'fd00::1',
  '::ffff:10.0.0.1',
  '10.0.0.0/8',
  'loadBalancerSourceRanges',
  'sessionAffinity',
  'ClientIP',
  'endpoints',
  'addresses',
  'conditions',
  'hints',
  'forZones',
  'targetRef',
  'nodeName',
  'addressType',
  'IPv4',
  'IPv6',
  'status',
  'loadBalancer',
  'ingress',
  'ipMode',
  'items',
  'apiVersion',
  'kind',
  'v1',
  'discovery.k8s.io/v1',
  'Service',
  'EndpointSlice',
  'Node',
  'List',
  'podCIDRs',
  'ADDED',
  'BOOKMARK',
  'resourceVersion',
  'managedFields',
  'kubernetes.io/service-name',
  'topology.kubernetes.io/zone',
  ...Object.values(SERVICE_ANNOTATION),
]

/** Whether managedFields are where the API server has them, last in metadata, and nowhere else: elsewhere a cut may break the text. */
function isAsServersWrite(json: unknown): boolean {
  const { metadata, ...others } = isObject(json) ? json : {}
  const { managedFields: _, ...rest } = isObject(metadata) ? metadata : {}
  const isLast = isObject(metadata) && Object.keys(metadata).at(-1) === 'managedFields'
  return isLast && !JSON.stringify([others, rest]).includes('managedFields')
}

function cutsOnlyManagedFields(text: string, json: unknown): void {
  const parsed: unknown = JSON.parse(textWithoutManagedFields(Buffer.from(text)))
  const without = (value: unknown): unknown =>
    JSON.parse(JSON.stringify(value, (key, inner: unknown) => (key === 'managedFields' ? undefined : inner)))
  if (!isDeepStrictEqual(parsed, json))
    rule(isDeepStrictEqual(without(parsed), without(json)), 'only managedFields are cut')
}

/** Accepts the errors of kubeconfigs, whose message must hold nothing secret. */
async function readKubeconfig(input: Uint8Array): Promise<void> {
  const wrong = (message: string, cause?: unknown): CodedError => {
    rule(!message.includes('[native code]'), 'a message holds no code')
    return new CodedError('kubeconfig', message, { cause })
  }
  try {
    await loadKubeconfig(Buffer.from(input).toString(), { path: '/nowhere/config', master: '', wrong })
  } catch (error) {
    if (!(error instanceof CodedError) || error.code !== 'kubeconfig') throw error
  }
}

const PLUGIN = parseExecPlugin({ apiVersion: 'client.authentication.k8s.io/v1', command: 'plugin' }, '/', undefined)

async function readCredential(input: Uint8Array): Promise<void> {
  const output = Buffer.from(input).toString()
  const login = new ExecLogin(
    () => Promise.resolve({ exitCode: 0, output, errorText: '' }),
    () => 0,
  )
  try {
    const { token, certificate, key } = await login.credentials(PLUGIN)
    rule(
      [token, certificate, key].every((text) => typeof text === 'string'),
      'credentials are texts',
    )
  } catch (error) {
    // A plain Error says what the plugin did wrong.
    if (!(error instanceof Error) || error.name !== 'Error') throw error
  }
}

async function readManifests(input: Uint8Array): Promise<void> {
  const { problems } = await parseManifestFile('a.yaml', Buffer.from(input).toString(), 'node0', intern)
  rule(
    problems.every(({ code }) => code !== 'invalid-manifest' || true),
    'problems have codes',
  )
  rule(
    problems.every(({ message }) => message.length < 2000),
    'a message about a manifest is short',
  )
  const unknown = problems.find(({ message }) => message.startsWith('cannot be read:'))
  rule(unknown === undefined, `a manifest is never unreadable: ${unknown?.message ?? ''}`)
}

const YAML = [
  '---\n',
  '...\n',
  '&a ',
  '*a',
  '<<: *a',
  '!!binary ',
  '!!set ',
  '!!omap ',
  '!!float ',
  '|\n',
  '>-\n',
  '"',
  '%YAML 1.1\n',
  '? ',
  ': ',
  '- ',
  '~',
  'null',
  'yes',
  '1:30',
  '0o17',
  '.inf',
  '.nan',
  '2026-01-01',
  '# ',
  '\t',
]

const example = (name: string): string =>
  readFileSync(new URL(`../../../../examples/${name}.yaml`, import.meta.url), 'utf8')

const KUBECONFIG = `apiVersion: v1
kind: Config
current-context: c
clusters:
- name: k
  cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: aGk=, extensions: [{name: client.authentication.k8s.io/exec, extension: {a: 1}}]}
contexts:
- name: c
  context: {cluster: k, user: u}
users:
- name: u
  user:
    token: secret
    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin, args: [a], env: [{name: A, value: b}], interactiveMode: Never, provideClusterInfo: true}
    auth-provider: {name: gcp, config: {}}
`

export const API_TARGETS: readonly Target[] = [
  {
    name: 'protobuf-objects',
    what: 'Services, EndpointSlices, Nodes, lists and Status in protobuf, parsed',
    form: 'protobuf',
    words: FIELDS,
    seeds: envelopes,
    run: (input) =>
      void readAnswer(unlessRefused(BAD_ANSWER, () => decodeObject(reader, Buffer.from(input), 0, input.length))),
  },
  {
    name: 'protobuf-events',
    what: 'events of a watch in protobuf, parsed',
    form: 'protobuf',
    words: FIELDS,
    seeds: () =>
      envelopes().flatMap((one) =>
        ['ADDED', 'BOOKMARK'].map((type) => new Uint8Array(encodeEventFrame(type, Buffer.from(one)).subarray(4))),
      ),
    run(input) {
      const event = unlessRefused(BAD_ANSWER, () => decodeWatchEvent(reader, Buffer.from(input), 0, input.length))
      if (event !== undefined) readObject(event['object'])
    },
  },
  {
    name: 'protobuf-stream',
    slice: 250,
    what: 'the stream of a watch in protobuf, cut into chunks',
    form: 'bytes',
    words: FIELDS,
    seeds: () =>
      [
        Buffer.concat(
          envelopes()
            .slice(0, 3)
            .map((one) => encodeEventFrame('MODIFIED', Buffer.from(one))),
        ),
      ].map((all) => new Uint8Array(all)),
    run(input) {
      const splitter = new FrameSplitter(4096)
      unlessRefused(BAD_ANSWER, () => splitter.push(Buffer.from(input), () => undefined))
      inChunks(input, 'application/vnd.kubernetes.protobuf')
    },
  },
  {
    name: 'json-stream',
    slice: 300,
    what: 'the stream of a watch in JSON, cut into chunks, without managedFields',
    form: 'text',
    words: [...FIELDS, '"managedFields":[', ']},"spec":', ']},"addressType":', ',', '\n', '{', '}', '"'],
    seeds: () => [recorded('services-watch-changes')],
    run(input) {
      const splitter = new LineSplitter(4096)
      unlessRefused(BAD_ANSWER, () => splitter.push(Buffer.from(input)))
      inChunks(input, 'application/json')
    },
  },
  {
    name: 'json-objects',
    slice: 500,
    what: 'objects in JSON, parsed, and without managedFields',
    form: 'json',
    words: FIELDS,
    seeds: () => OBJECTS.map((object) => JSON.stringify(object)),
    run(input) {
      const text = Buffer.from(input).toString()
      let json: unknown
      try {
        json = JSON.parse(text)
      } catch {
        return
      }
      readAnswer(json)
      readObject(json, 'manifest')
      // The comparison, unlike the program, calls itself for each level.
      if (jsonSize(text).depth < 100 && isAsServersWrite(json)) cutsOnlyManagedFields(text, json)
    },
  },
  {
    name: 'manifests',
    slice: 40,
    microsecondsPerByte: 6,
    what: 'files of manifests, in YAML and JSON',
    form: 'text',
    words: [...FIELDS, ...YAML],
    seeds: () => ['web', 'node', 'edge-load-balancer', 'cart-affinity'].map(example),
    run: readManifests,
  },
  {
    name: 'manifests-json',
    slice: 40,
    microsecondsPerByte: 6,
    what: 'files of manifests as JSON',
    form: 'json',
    words: FIELDS,
    seeds: () =>
      [...OBJECTS.slice(0, 3), { apiVersion: 'v1', kind: 'List', items: OBJECTS.slice(0, 3) }].map((object) =>
        JSON.stringify(object),
      ),
    run: readManifests,
  },
  {
    name: 'kubeconfig',
    slice: 40,
    microsecondsPerByte: 6,
    what: 'kubeconfigs, with their exec plugins',
    form: 'text',
    words: [
      ...YAML,
      'users',
      'user',
      'name',
      'exec',
      'auth-provider',
      'tokenFile',
      'cluster',
      'server',
      'token',
      'http://',
      'insecure-skip-tls-verify: true',
    ],
    seeds: () => [KUBECONFIG],
    run: readKubeconfig,
  },
  {
    name: 'exec-credentials',
    what: 'the output of exec plugins',
    form: 'json',
    words: [
      'status',
      'token',
      'clientCertificateData',
      'clientKeyData',
      'expirationTimestamp',
      '2026-01-01T00:00:00Z',
      'ExecCredential',
    ],
    seeds: () => [
      JSON.stringify({
        apiVersion: 'client.authentication.k8s.io/v1',
        kind: 'ExecCredential',
        status: { token: 't', expirationTimestamp: '2030-01-01T00:00:00Z' },
      }),
      JSON.stringify({
        apiVersion: 'client.authentication.k8s.io/v1',
        kind: 'ExecCredential',
        status: { clientCertificateData: 'c', clientKeyData: 'k' },
      }),
    ],
    run: readCredential,
  },
]
