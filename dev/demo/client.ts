/**
 * The client outside the cluster: a URL a line on stdin, a line of JSON for each on stdout (null = no answer).
 * What could break: one after the other, so that answers come in the order of the questions.
 */
import { createInterface } from 'node:readline'
import { ask } from './ask.ts'

console.log('ready')
for await (const url of createInterface({ input: process.stdin })) console.log(JSON.stringify((await ask(url)) ?? null))
