/**
 * A list in pages, for servers that cannot stream it.
 * @impure
 */
import type { ApiClient, ListPage } from '../api/api-client.ts'
import { ApiError } from '../api/api-error.ts'
import type { Selection } from '../objects/selection.ts'
import { listQuery, pageQuery } from './queries.ts'

/**
 * Every page of a list, the last one without a `continueToken`. `onRestart` says that the list
 * starts again without pages, as client-go does, because the server does not know the next page any
 * more; what came before is void.
 */
export async function* listPages(
  client: Pick<ApiClient, 'list'>,
  selection: Selection,
  onRestart: () => void,
  signal: AbortSignal,
): AsyncGenerator<ListPage, void, undefined> {
  let query = pageQuery(selection, '')
  for (;;) {
    let page: ListPage
    try {
      page = await client.list(selection.path, query, signal)
    } catch (error) {
      if (!(error instanceof ApiError) || !error.isExpired || query['continue'] === undefined) throw error
      onRestart()
      query = listQuery(selection)
      continue
    }
    yield page
    if (page.continueToken === '') return
    if (page.continueToken === query['continue'])
      throw new ApiError('api-bad-response', 'the continue token of a page is that of the page before')
    query = pageQuery(selection, page.continueToken)
  }
}
