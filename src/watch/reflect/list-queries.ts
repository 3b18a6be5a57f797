/**
 * The queries of lists and watches, as kube-proxy 1.36 sends them.
 * What could break: lists ask for no resourceVersion, where kube-proxy asks for 0: from a watch cache that is behind, 0 can
 * bring a state older than the one we have, and older servers ignore `limit` with it.
 */
import type { Query } from '../api/api-client.ts'
import type { Selection } from '../objects/selection.ts'

/** Objects a page. */
const PAGE_SIZE = 500

/** A streaming list that goes on as a watch (KEP-3157). */
export function streamingListQuery(selection: Selection, timeoutSeconds: number): Query {
  return { ...watching(selection, timeoutSeconds), sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' }
}

/** A watch of what comes after a version. */
export function watchQuery(selection: Selection, timeoutSeconds: number, resourceVersion: string): Query {
  return { ...watching(selection, timeoutSeconds), resourceVersion }
}

/** One page of a list; `continueToken` is '' for the first. */
export function pageQuery(selection: Selection, continueToken: string): Query {
  const query = { ...selectors(selection), limit: String(PAGE_SIZE) }
  return continueToken === '' ? query : { ...query, continue: continueToken }
}

/** A list in one piece. */
export function wholeListQuery(selection: Selection): Query {
  return selectors(selection)
}

function watching(selection: Selection, timeoutSeconds: number): Query {
  return {
    ...selectors(selection),
    watch: 'true',
    allowWatchBookmarks: 'true',
    timeoutSeconds: String(timeoutSeconds),
  }
}

function selectors({ labelSelector, fieldSelector }: Selection): Query {
  return {
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  }
}
