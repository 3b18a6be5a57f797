/**
 * The queries of lists and watches. They are those of kube-proxy 1.37, except that lists have no
 * resourceVersion where kube-proxy asks for 0: a watch cache that is behind may answer 0 with older
 * objects than we have, and older servers ignore `limit` with it.
 */
import type { Selection } from '../objects/selection.ts'

/** As the client takes it, in whose file it has the same name; that file is not pure. */
type Query = Readonly<Record<string, string>>

/** Objects per page of a list. */
export const PAGE_SIZE = 500

/** A streaming list that continues as a watch. */
export function streamingListQuery(selection: Selection, timeoutSeconds: number): Query {
  return {
    ...watchParameters(selection, timeoutSeconds),
    sendInitialEvents: 'true',
    resourceVersionMatch: 'NotOlderThan',
  }
}

export function watchQuery(selection: Selection, timeoutSeconds: number, resourceVersion: string): Query {
  return { ...watchParameters(selection, timeoutSeconds), resourceVersion }
}

/** One page of a list; `continueToken` is '' for the first. */
export function pageQuery(selection: Selection, continueToken: string, size: number): Query {
  const query = { ...listQuery(selection), limit: String(size) }
  return continueToken === '' ? query : { ...query, continue: continueToken }
}

function watchParameters(selection: Selection, timeoutSeconds: number): Query {
  return {
    ...listQuery(selection),
    watch: 'true',
    allowWatchBookmarks: 'true',
    timeoutSeconds: String(timeoutSeconds),
  }
}

/** A whole list without pages. */
export function listQuery({ labelSelector, fieldSelector }: Selection): Query {
  return {
    ...(labelSelector === undefined ? {} : { labelSelector }),
    ...(fieldSelector === undefined ? {} : { fieldSelector }),
  }
}
