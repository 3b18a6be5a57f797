/** Parses objects for tests as the sources do. */
import type { EndpointSlice, Node, ObjectKind, Service } from '../../../src/service/objects.ts'
import type { Problem } from '../../../src/values/errors.ts'
import { createIntern } from '../../../src/watch/objects/findings.ts'
import { parseMetadata, parseObject } from '../../../src/watch/objects/object-parser.ts'

const intern = createIntern()

/** `field: code` of each problem. */
export function briefly(problems: readonly Problem[]): string[] {
  return problems.map(({ field, code }) => `${field ?? ''}: ${code}`)
}

export function parse(kind: ObjectKind, json: unknown): { value: unknown; problems: string[] } {
  const metadata = parseMetadata(kind, json, intern)
  if (metadata === undefined) return { value: undefined, problems: ['metadata.name: missing-field'] }
  const { change, problems } = parseObject(kind, json, metadata, intern)
  return { value: change.value, problems: briefly(problems) }
}

/** The parsed Service demo/web with this spec and status, and its problems. */
export function parseServiceSpec(spec: unknown, status?: unknown): { value: Service | undefined; problems: string[] } {
  const json = { metadata: { name: 'web', namespace: 'demo' }, spec, status }
  const { value, problems } = parse('services', json)
  return { value: value as Service | undefined, problems }
}

/** The parsed slice demo/web-1 with these fields, and its problems. */
export function parseSliceFields(fields: object): { value: EndpointSlice | undefined; problems: string[] } {
  const metadata = { name: 'web-1', namespace: 'demo', labels: { 'kubernetes.io/service-name': 'web' } }
  const { value, problems } = parse('endpointslices', { metadata, addressType: 'IPv4', ...fields })
  return { value: value as EndpointSlice | undefined, problems }
}

export function parseNodeFields(fields: object): { value: Node | undefined; problems: string[] } {
  const { value, problems } = parse('nodes', { metadata: { name: 'node0' }, ...fields })
  return { value: value as Node | undefined, problems }
}
