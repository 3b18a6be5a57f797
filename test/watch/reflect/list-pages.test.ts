/** Lists in pages, from servers whose objects are large. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { ListPage, Query } from '../../../src/watch/api/api-client.ts'
import { ApiError } from '../../../src/watch/api/api-error.ts'
import { listPages } from '../../../src/watch/reflect/list-pages.ts'

const SELECTION = { path: '/things' }
const signal = new AbortController().signal

/** A server of `count` objects that sends at most `most` of them in one answer. */
function server(count: number, most: number, ignoresLimit = false) {
  const asked: string[] = []
  const list = async (_path: string, { limit, continue: from = '0' }: Query): Promise<ListPage> => {
    asked.push(`${limit ?? 'all'} from ${from}`)
    const first = Number(from)
    const size = ignoresLimit || limit === undefined ? count : Number(limit)
    if (limit !== undefined && Math.min(size, count - first) > most)
      throw new ApiError('api-body-too-large', 'too large')
    const items = Array.from({ length: Math.min(size, count - first) }, (_, index) => first + index)
    const next = first + items.length
    return { items, resourceVersion: '1', continueToken: next < count ? String(next) : '' }
  }
  return { asked, client: { list } }
}

async function listed({ client }: ReturnType<typeof server>): Promise<readonly unknown[]> {
  let items: unknown[] = []
  for await (const page of listPages(client, SELECTION, () => (items = []), signal)) items.push(...page.items)
  return items
}

describe('listPages', () => {
  it('asks for smaller pages where one is too large, and goes on with them', async () => {
    const large = server(300, 40)
    assert.equal((await listed(large)).length, 300)
    assert.deepEqual(large.asked.slice(0, 4), ['500 from 0', '125 from 0', '32 from 0', '32 from 32'])
  })

  it('keeps what came before a page that is too large', async () => {
    const late = server(600, 500)
    const list = late.client.list
    let refused = false
    late.client.list = (path, query) => {
      if (query['continue'] === undefined || refused) return list(path, query)
      refused = true
      late.asked.push('refused')
      return Promise.reject(new ApiError('api-body-too-large', 'too large'))
    }
    assert.deepEqual(
      await listed(late),
      Array.from({ length: 600 }, (_, index) => index),
    )
    assert.deepEqual(late.asked, ['500 from 0', 'refused', '125 from 500'])
  })

  it('asks for the whole list where the server ignores the size of a page', async () => {
    const stubborn = server(50, 10, true)
    assert.equal((await listed(stubborn)).length, 50)
    assert.equal(stubborn.asked.at(-1), 'all from 0')
    assert.ok(stubborn.asked.length < 10)
  })

  it('rejects where not even a whole list fits', async () => {
    const client = { list: () => Promise.reject(new ApiError('api-body-too-large', 'too large')) }
    const pages = listPages(client, SELECTION, () => undefined, signal)
    await assert.rejects(pages.next(), { code: 'api-body-too-large' })
  })
})
