/**
 * Looks in a folder of manifests for the endpoints of one pod. The folder is read again, because
 * the objects that the source keeps do not have the pods of their endpoints.
 * @impure
 */
import { Composer, type Document, Parser } from 'yaml'
import { isObject } from '../objects/findings.ts'
import { type PodEndpoints, PodEndpointCollector, type PodName } from '../objects/pod-endpoints.ts'
import { readFolder } from './manifest-folder.ts'
import { newBudget } from '../../values/event-loop.ts'

/** Rejects when the folder cannot be read, or when aborted. A file that is no YAML is passed over. */
export async function listPodFromManifests(
  directory: string,
  pod: PodName,
  signal: AbortSignal,
): Promise<PodEndpoints> {
  const collector = new PodEndpointCollector(pod)
  const { files } = await readFolder(directory, new Map())
  for (const { text = '' } of files.values()) for await (const object of objectsIn(text, signal)) collector.add(object)
  return collector.found
}

/** The documents of a file, and the items of those that are lists. */
async function* objectsIn(text: string, signal: AbortSignal): AsyncGenerator<unknown, void, void> {
  // Most files have no pod at all.
  if (!text.includes('targetRef')) return
  const budget = newBudget()
  for (const document of new Composer({ version: '1.1', logLevel: 'silent' }).compose(new Parser().parse(text))) {
    const json = jsonOf(document)
    yield json
    const items = isObject(json) ? json['items'] : undefined
    if (Array.isArray(items)) yield* items
    if (!budget.spent()) continue
    await budget.turn()
    signal.throwIfAborted()
  }
}

/** undefined for what is no YAML, and for aliases that would expand without end. */
function jsonOf(document: Document.Parsed): unknown {
  if (document.errors.length > 0) return undefined
  try {
    return document.toJS()
  } catch {
    return undefined
  }
}
