/**
 * The HTTP server of one pod: answers every request with its name. Arguments: name and port. Prints `ready`.
 * What could break: a connection must end with its answer, or IPVS would balance nothing.
 */
import { createServer } from 'node:http'

const [name = '', port = ''] = process.argv.slice(2)
createServer((_, response) => {
  response.writeHead(200, { connection: 'close', 'content-type': 'text/plain' })
  response.end(name)
}).listen(Number(port), '::', () => console.log('ready'))
