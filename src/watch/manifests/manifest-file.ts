/**
 * Parses one file of manifests, YAML 1.1 or JSON, to its objects and its problems. Each problem has
 * the line of the wrong field, which only the parsed tree of the document has.
 * @impure
 */
import {
  Alias,
  Composer,
  type Document,
  isCollection,
  isScalar,
  LineCounter,
  Parser,
  type Scalar,
  visit,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import type { ObjectChange, ObjectKind } from '../../service/objects.ts'
import { newBudget } from '../../values/event-loop.ts'
import type { Problem } from '../../values/errors.ts'
import { isOutOfStack, nestingOf } from '../../values/nesting.ts'
import { describe, type Intern, isObject, type JsonObject } from '../objects/findings.ts'
import { parseMetadata, parseObject, subjectOf } from '../objects/object-parser.ts'
import { isSelected } from '../objects/selection.ts'
import { UNREAD_LISTS, type UnreadEndpoints, unreadEndpoints } from './unread-endpoints.ts'
import { ownMember } from '../../values/own-member.ts'

/** An object of a file that this proxy serves. */
export interface ManifestObject {
  readonly change: ObjectChange
  /** Line of the file where the object starts, from 1. */
  readonly line: number
}

export interface ManifestFile {
  /** In file order. Of two entries for one object only the first is used. */
  readonly objects: readonly ManifestObject[]
  /** Empty exactly when the file is correct. */
  readonly problems: readonly Problem[]
  /** Objects with endpoints that are not read; the file is correct all the same. */
  readonly unread: readonly UnreadEndpoints[]
}

/** The kinds that are read, by apiVersion and kind. All others are ignored. */
const KINDS: Readonly<Record<string, ObjectKind>> = {
  'v1 Service': 'services',
  'discovery.k8s.io/v1 EndpointSlice': 'endpointslices',
  'v1 Node': 'nodes',
}
/** Kinds of lists, with the kind of items that do not name one; '' where each item must. */
const LISTS: Readonly<Record<string, string>> = {
  'v1 List': '',
  'v1 ServiceList': 'v1 Service',
  'discovery.k8s.io/v1 EndpointSliceList': 'discovery.k8s.io/v1 EndpointSlice',
  'v1 NodeList': 'v1 Node',
  ...UNREAD_LISTS,
}

type Path = readonly (string | number)[]

/**
 * Parses a file and yields to the event loop between documents. Never rejects. @param name of the
 * file, for problems
 */
export async function parseManifestFile(
  name: string,
  text: string,
  nodeName: string,
  intern: Intern,
): Promise<ManifestFile> {
  const objects = new Map<string, ManifestObject>()
  const problems: Problem[] = []
  const unread: UnreadEndpoints[] = []
  const lines = new LineCounter()
  const lineAt = (offset: number): number => lines.linePos(offset).line || 1
  const report = (code: string, line: number, message: string, field?: string): void => {
    problems.push({
      code,
      about: 'object',
      subject: `${name}:${line}`,
      message,
      ...(field === undefined ? {} : { field }),
    })
  }

  const takeObject = (document: Document, path: Path, json: unknown, inheritedType: string): void => {
    const lineOf = (field: Path): number => lineAt(offsetOf(document, [...path, ...field]))
    if (!isObject(json)) {
      report('invalid-manifest', lineOf([]), `must be an object, not ${describe(json)}`)
      return
    }
    const { apiVersion, kind } = json
    let type = inheritedType
    if (apiVersion !== undefined || kind !== undefined) {
      // Checked before they become text, because a YAML map may have a `toString` that is not a function.
      if (typeof kind !== 'string') {
        report('missing-field', lineOf([]), `must be text, not ${describe(kind)}`, 'kind')
        return
      }
      if (typeof apiVersion !== 'string') {
        report('missing-field', lineOf([]), `must be text, not ${describe(apiVersion)}`, 'apiVersion')
        return
      }
      type = `${apiVersion} ${kind}`
    }
    const itemType = ownMember(LISTS, type)
    if (itemType !== undefined) {
      takeItems(document, path, json, itemType)
      return
    }
    const objectKind = ownMember(KINDS, type)
    if (objectKind === undefined) {
      const found = unreadEndpoints(type, json, intern)
      if (found !== undefined) unread.push({ ...found, line: lineOf([]) })
      return
    }
    const metadata = parseMetadata(objectKind, json, intern)
    if (metadata === undefined) {
      report('missing-field', lineOf(['metadata']), 'must name the object', 'metadata.name')
      return
    }
    const isServed = isSelected(objectKind, metadata, json, nodeName)
    // Of other Nodes only the labels count.
    if (!isServed && (objectKind !== 'nodes' || Object.keys(metadata.labels).length === 0)) return
    const parsed = parseObject(objectKind, json, metadata, intern, 'manifest')
    for (const problem of isServed ? parsed.problems : [])
      report(problem.code, lineOf(fieldPath(problem.field ?? '')), problem.message, problem.field)
    if (objectKind === 'services' && lacksClusterIp(json))
      report('missing-field', lineOf(['spec']), 'must be given: no API server is there to assign one', 'spec.clusterIP')
    if (parsed.change.value === undefined) return
    const identity = `${objectKind} ${metadata.key}`
    const earlier = objects.get(identity)
    if (earlier === undefined) objects.set(identity, { change: parsed.change, line: lineOf([]) })
    else {
      const subject = subjectOf(objectKind, metadata.key)
      report('duplicate-object', lineOf([]), `${subject} is on line ${earlier.line} already`)
    }
  }

  const takeItems = (document: Document, path: Path, json: JsonObject, itemType: string): void => {
    const items = json['items'] ?? []
    if (!Array.isArray(items)) {
      const line = lineAt(offsetOf(document, [...path, 'items']))
      report('invalid-field', line, `must be a list, not ${describe(items)}`, 'items')
      return
    }
    for (const [index, item] of items.entries()) takeObject(document, [...path, 'items', index], item, itemType)
  }

  const takeDocument = (document: Document): void => {
    const [error] = document.errors
    if (error !== undefined) {
      if (isOutOfStack(error.message)) reportNesting(document.range?.[0] ?? 0)
      else report('invalid-yaml', lineAt(error.pos[0]), error.message)
      return
    }
    const mistake = mistakeIn(document)
    if (mistake !== undefined) {
      report('invalid-yaml', lineAt(mistake.offset), mistake.what)
      return
    }
    let json: unknown
    try {
      json = document.toJS()
    } catch (reason) {
      // Aliases that would expand without end.
      if (isOutOfStack(reason)) reportNesting(document.range?.[0] ?? 0)
      else report('invalid-yaml', lineAt(offsetOf(document, [])), messageOf(reason))
      return
    }
    if (json !== null && json !== undefined) takeObject(document, [], json, '')
  }

  /** @param start of the document */
  const reportNesting = (start: number): void => {
    const line = lineAt(start) + nestingOf(text.slice(start)).line - 1
    report(
      'invalid-yaml',
      line,
      'nests too deeply to be read: look for a missing comma or bracket, or a colon in place of a comma',
    )
  }

  const budget = newBudget()
  let line = 1
  let end = 0
  try {
    // The check for repeated keys of the package takes time with the square of their number.
    const composer = new Composer({ version: '1.1', logLevel: 'silent', uniqueKeys: false })
    for (const document of composer.compose(new Parser(lines.addNewLine).parse(text))) {
      line = lineAt(offsetOf(document, []))
      takeDocument(document)
      end = document.range?.[2] ?? end
      if (budget.spent()) await budget.turn()
    }
  } catch (reason) {
    if (isOutOfStack(reason)) reportNesting(end)
    // No other content of a file is known to cause this. If one does, only this file is affected.
    else report('invalid-manifest', line, `cannot be read: ${messageOf(reason)}`)
  }
  return { objects: [...objects.values()], problems, unread }
}

interface Mistake {
  readonly what: string
  readonly offset: number
}

type Anchored = Scalar | YAMLMap | YAMLSeq

/** A key that its map has already. Also leads each alias to its anchor. */
function mistakeIn(document: Document): Mistake | undefined {
  let found: Mistake | undefined
  /** The last node with each anchor. */
  const anchors = new Map<string, Anchored>()
  const note = (node: Anchored): void => {
    if (node.anchor !== undefined) anchors.set(node.anchor, node)
  }
  visit(document, {
    Scalar: (_, scalar) => note(scalar),
    Seq: (_, list) => note(list),
    Alias: (_, alias) => lead(alias, anchors.get(alias.source)),
    Map: (_, map) => {
      note(map)
      const seen = new Set<unknown>()
      for (const { key } of map.items) {
        if (!isScalar(key)) continue
        if (seen.has(key.value)) {
          found = { what: 'Map keys must be unique', offset: key.range?.[0] ?? 0 }
          return visit.BREAK
        }
        seen.add(key.value)
      }
      return undefined
    },
  })
  return found
}

/**
 * The package looks for the anchor of an alias among all anchors and aliases of the document, and
 * counts the values of an anchor again for each alias where it finds none: time with the square of
 * their number. Its limit of aliases of one anchor stays.
 */
function lead(alias: Alias, anchor: Anchored | undefined): void {
  alias.resolve = (document, context) => {
    if (context === undefined || anchor === undefined) return anchor
    context.aliasResolveCache = [anchor]
    Alias.prototype.resolve.call(alias, document, context)
    const data = context.anchors.get(anchor)
    if (data?.aliasCount === 0 && isCollection(anchor) && anchor.items.length > 0) data.aliasCount = 1
    return anchor
  }
}

function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : 'a value was thrown that is not an Error'
}

/** Whether an API server would assign a cluster IP to this Service. A headless Service has `None`. */
function lacksClusterIp(json: JsonObject): boolean {
  const spec = isObject(json['spec']) ? json['spec'] : {}
  const { type, clusterIP, clusterIPs } = spec
  const several = Array.isArray(clusterIPs) ? clusterIPs : []
  return type !== 'ExternalName' && (clusterIP ?? '') === '' && several.length === 0
}

/** The path of a field such as `spec.ports[0].port` or `metadata.labels["a/b"]`. */
function fieldPath(field: string): Path {
  const parts = field.matchAll(/\["([^"]*)"\]|\[(\d+)\]|([^.[\]]+)/g)
  return [...parts].map(([, label, index, name]) => label ?? (index === undefined ? (name ?? '') : Number(index)))
}

/** Where the node at a path starts, or its nearest ancestor that exists. */
function offsetOf(document: Document, path: Path): number {
  for (let length = path.length; length >= 0; length--) {
    const node = length === 0 ? document.contents : document.getIn(path.slice(0, length), true)
    const start = isObject(node) && Array.isArray(node['range']) ? node['range'][0] : undefined
    if (typeof start === 'number') return start
  }
  return document.range?.[0] ?? 0
}
