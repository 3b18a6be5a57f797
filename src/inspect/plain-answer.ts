/**
 * A question to a port of this node, for what answers in plain text. The answer is taken as it is
 * sent: `fetch` would decode what the listener says is Brotli or gzip, with code that this program
 * has no other use for, and that has been vulnerable (CVE-2026-111497).
 * @impure
 */
import { type IncomingMessage, request } from 'node:http'

/**
 * The first bytes of the answer as text; '' for one with another status than 2xx, so a redirect is
 * none. Rejects with Node's own error without an answer in time.
 */
export async function plainAnswer(url: string, maxBytes: number, timeoutMs: number): Promise<string> {
  const answer = await answerOf(url, timeoutMs)
  const { statusCode = 0 } = answer
  if (statusCode < 200 || statusCode > 299) {
    answer.destroy()
    return ''
  }
  const chunks: Buffer[] = []
  let bytes = 0
  // Leaving the loop ends the connection. There is no text encoding, so the chunks are buffers.
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= maxBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxBytes).toString()
}

function answerOf(url: string, timeoutMs: number): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request(url, { agent: false, signal: AbortSignal.timeout(timeoutMs) }, resolve)
      .on('error', reject)
      .end()
  })
}
