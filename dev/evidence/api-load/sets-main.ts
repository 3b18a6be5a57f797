/**
 * Sets of reflectors in one process, each as a node has it: the real source with its own connection,
 * into a sink that only counts. `clients.ts` forks it and asks for the counts.
 */
import { KubeAccess } from '../../../src/watch/api/kube-config.ts'
import { openApiSource } from '../../../src/watch/reflect/api-source.ts'

/** As one argument of JSON. */
export interface Sets {
  readonly kubeconfig: string
  readonly nodes: readonly string[]
}

/** Of all sets of the process so far. */
export interface Counts {
  readonly listed: number
  readonly changes: number
}

const { kubeconfig, nodes } = JSON.parse(process.argv[2] ?? '') as Sets // written by clients.ts
let listed = 0
let changes = 0
const sink = {
  apply: (applied: readonly unknown[]): void => void (changes += applied.length),
  listed: (): void => void listed++,
  problems: (): void => undefined,
}
const silent = (): void => undefined
const log = { info: silent, verbose: silent, warn: silent, error: silent, v: () => false }
for (const nodeName of nodes)
  openApiSource({ access: new KubeAccess({ kubeconfig }), nodeName, version: 'api-load', sink, log })
process.on('message', () => process.send?.({ listed, changes } satisfies Counts))
process.once('disconnect', () => process.exit())
