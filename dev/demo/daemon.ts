/**
 * The daemon under show, as a child: its warnings and errors are passed on, all of its log is kept for a failure.
 * What could break: it must be the command that people type, bin/kube-ipvs.mjs, with nothing done to it.
 */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Children } from './children.ts'
import { NODE } from './topology.ts'

const configuration = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'ipvs',
  hostnameOverride: NODE.name,
  nodePortAddresses: ['primary'],
}

export interface Daemon {
  /** The end of its log. */
  log(): string
  /** Rejects when the daemon ends by itself. */
  readonly died: Promise<never>
}

export function startDaemon(
  children: Children,
  { project, folder, complain }: { project: string; folder: string; complain(line: string): void },
): Daemon {
  const file = join(folder, 'kube-ipvs.json')
  writeFileSync(file, JSON.stringify(configuration))
  const program = [process.execPath, join(project, 'bin/kube-ipvs.mjs')]
  const child = children.start([...program, '--config', file, '--manifests', join(project, 'examples')])
  const lines: string[] = []
  child.stdout.resume()
  createInterface({ input: child.stderr }).on('line', (line) => {
    lines.push(line)
    if (lines.length > 200) lines.shift()
    if (/^[WEF]\d{4} /.test(line)) complain(line)
  })
  const died = once(child, 'exit').then(([code, signal]) => {
    throw new Error(`the daemon ended with ${signal ?? `exit code ${code}`}:\n${lines.join('\n')}`)
  })
  died.catch(() => undefined) // heard only by those who wait for it
  return { log: () => lines.join('\n'), died }
}
