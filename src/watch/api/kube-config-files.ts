/**
 * The files that a kubeconfig names: certificates, keys and tokens.
 * @impure
 */
import { readFile } from 'node:fs/promises'
import type { KubeConfig, User } from '@kubernetes/client-node'
import { isObject } from '../objects/findings.ts'

/**
 * The configuration with the files of its current cluster and user read. client-node would read
 * them with synchronous calls at each request, so that a file system that hangs would stop the
 * whole process; and it keeps a token for a minute.
 */
export async function withFiles(config: KubeConfig): Promise<KubeConfig> {
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()]
  const tokenFile = tokenFileOf(user?.authProvider)
  const [caData, certData, keyData, token] = await Promise.all([
    base64Of(cluster?.caFile),
    base64Of(user?.certFile),
    base64Of(user?.keyFile),
    tokenFile === '' ? undefined : readFile(tokenFile, 'utf8'),
  ])
  const copy = Object.assign(Object.create(Object.getPrototypeOf(config)) as KubeConfig, config) // keeps its methods
  if (cluster !== null && caData !== undefined) {
    const { caFile: _, ...others } = cluster
    copy.clusters = config.clusters.map((one) => (one === cluster ? { ...others, caData } : one))
  }
  if (user !== null) {
    const { certFile: _cert, keyFile: _key, authProvider, ...others } = user
    const read: User = {
      ...others,
      ...(certData === undefined ? {} : { certData }),
      ...(keyData === undefined ? {} : { keyData }),
      ...(token === undefined ? { authProvider } : { token: others.token ?? token }),
    }
    copy.users = config.users.map((one) => (one === user ? read : one))
  }
  return copy
}

function tokenFileOf(authProvider: unknown): string {
  const config = isObject(authProvider) ? authProvider['config'] : undefined
  const tokenFile = isObject(config) ? config['tokenFile'] : undefined
  return typeof tokenFile === 'string' ? tokenFile : ''
}

async function base64Of(file: string | undefined): Promise<string | undefined> {
  return file ? (await readFile(file)).toString('base64') : undefined
}
