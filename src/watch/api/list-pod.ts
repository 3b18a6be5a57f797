/**
 * Asks the API server for the endpoints of one pod: the EndpointSlices of its namespace, in small
 * pages.
 * @impure
 */
import { type PodEndpoints, PodEndpointCollector, type PodName } from '../objects/pod-endpoints.ts'
import type { AccessProvider } from './access.ts'
import { ApiClient } from './api-client.ts'
import { JSON_TYPE } from './encodings.ts'

/** Slices in a page: their JSON is parsed in some milliseconds, even with 1,000 endpoints in each. */
const PAGE = 10
/** As many slices as the largest namespaces have. */
const MAX_PAGES = 1000

/** Rejects when the API server does not answer, or when aborted. */
export async function listPodFromApi(
  { access, userAgent }: { readonly access: AccessProvider; readonly userAgent: string },
  pod: PodName,
  signal: AbortSignal,
): Promise<PodEndpoints> {
  // As JSON, because the decoder of protobuf passes over the field.
  const client = new ApiClient({ access, userAgent, contentType: JSON_TYPE })
  const collector = new PodEndpointCollector(pod)
  const path = `/apis/discovery.k8s.io/v1/namespaces/${encodeURIComponent(pod.namespace)}/endpointslices`
  try {
    let next = ''
    for (let count = 0; count < MAX_PAGES; count++) {
      const query = { limit: String(PAGE), ...(next === '' ? {} : { continue: next }) }
      const page = await client.list(path, query, signal)
      for (const slice of page.items) collector.add(slice)
      next = page.continueToken
      if (next === '') break
    }
    return collector.found
  } finally {
    await client.close()
  }
}
