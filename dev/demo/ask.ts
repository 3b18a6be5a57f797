/**
 * One HTTP request on a connection of its own; the name of the pod that answered.
 * What could break: no agent: a connection that is kept would reach the same pod again.
 */
import { get } from 'node:http'

const timeoutMs = 3000

/** Undefined when there was no answer in time, or one that is no answer of ours. */
export function ask(url: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const request = get(url, { agent: false, timeout: timeoutMs }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (text: string) => {
        body += text
      })
      response.once('error', () => resolve(undefined))
      response.once('end', () => resolve(response.statusCode === 200 ? body : undefined))
    })
    request.once('timeout', () => request.destroy())
    request.once('close', () => resolve(undefined))
    request.once('error', () => resolve(undefined))
  })
}
