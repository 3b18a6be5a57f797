/**
 * A list in pages, for servers that cannot stream it.
 * @impure
 */
import type { ApiClient, ListPage } from '../api/api-client.ts'
import { ApiError } from '../api/api-error.ts'
import type { Selection } from '../objects/selection.ts'
import { listQuery, PAGE_SIZE, pageQuery } from './queries.ts'

/** How many times smaller the pages get when one is too large. */
const SHRINKING = 4

/**
 * Every page of a list, the last one without a `continueToken`. Pages that are too large become
 * smaller. `onRestart` says that the list starts again without pages, as client-go does, because
 * the server does not know the next page any more, or ignores how large a page is to be; what came
 * before is void.
 */
export async function* listPages(
  client: Pick<ApiClient, 'list'>,
  selection: Selection,
  onRestart: () => void,
  signal: AbortSignal,
): AsyncGenerator<ListPage, void, undefined> {
  let size = PAGE_SIZE
  let query = pageQuery(selection, '', size)
  for (;;) {
    let page: ListPage
    try {
      page = await client.list(selection.path, query, signal)
    } catch (error) {
      if (!(error instanceof ApiError) || query['limit'] === undefined) throw error
      const token = query['continue'] ?? ''
      const isTooLarge = error.code === 'api-body-too-large'
      if (!isTooLarge && (!error.isExpired || token === '')) throw error
      if (isTooLarge && size > 1) {
        size = Math.ceil(size / SHRINKING)
        query = pageQuery(selection, token, size)
        continue
      }
      onRestart()
      query = listQuery(selection)
      continue
    }
    yield page
    if (page.continueToken === '') return
    if (page.continueToken === query['continue'])
      throw new ApiError('api-bad-response', 'the continue token of a page is that of the page before')
    query = pageQuery(selection, page.continueToken, size)
  }
}
