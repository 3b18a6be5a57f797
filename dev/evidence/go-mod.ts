/** The go.mod that a program is built with: replacements in that of its own module do not count for others. Pure. */

const MODULE = 'module program'

/**
 * k8s.io/kubernetes has its libraries (k8s.io/api and others) as folders of the same repository, with
 * the version v0.0.0; each is also a module of its own, with the version v0.N of Kubernetes 1.N.
 * @param release `1.37.2` @param own text of the module's go.mod
 */
export function kubernetesGoMod(release: string, own: string): string {
  const libraries = [...own.matchAll(/^\s+(k8s\.io\/\S+) v0\.0\.0(?: \/\/.*)?$/gm)].map(([, path]) => path)
  if (libraries.length === 0) throw new Error('that is no go.mod of k8s.io/kubernetes')
  const version = `v${release.replace(/^1\./, '0.')}`
  return [
    MODULE,
    goOf(own),
    `require k8s.io/kubernetes v${release}`,
    ...libraries.map((path) => `replace ${path} => ${path} ${version}`),
    '',
  ].join('\n')
}

/** etcd names published versions of its other modules. @param release `3.7.3` */
export function etcdGoMod(release: string, own: string): string {
  return `${MODULE}\n${goOf(own)}\nrequire go.etcd.io/etcd/server/v3 v${release}\n`
}

/** The line of the Go that it needs. */
function goOf(own: string): string {
  const line = /^go \S+$/m.exec(own)?.[0]
  if (line === undefined) throw new Error('that is no go.mod: it names no version of Go')
  return line
}
