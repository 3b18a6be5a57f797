/**
 * The programs that the demo runs inside network namespaces; each prints `ready` when it can be
 * used.
 *   pod NAME PORT   the HTTP server of one pod, which answers every request with its name
 *   client          the client outside the cluster: reads one URL a line on stdin and prints each answer as a line of JSON (null: no
 *                   answer), one after the other, so that answers are in the order of the requests
 */
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { ask } from './requests.ts'

const [program = '', name = '', port = ''] = process.argv.slice(2)
if (program === 'pod') servePod()
else await askForOthers()

/** Each connection ends with its answer: IPVS balances connections, not requests. */
function servePod(): void {
  createServer((_, response) => {
    response.writeHead(200, { connection: 'close', 'content-type': 'text/plain' })
    response.end(name)
  }).listen(Number(port), '::', () => console.log('ready'))
}

async function askForOthers(): Promise<void> {
  console.log('ready')
  for await (const url of createInterface({ input: process.stdin }))
    console.log(JSON.stringify((await ask(url)) ?? null))
}
