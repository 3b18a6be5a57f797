/**
 * Makes the go.mod with which a program of another module is built. Go ignores the replacements in
 * the go.mod of that module, because it is not the main one. Pure.
 */

const MODULE = 'module program'

/**
 * k8s.io/kubernetes requires its libraries (k8s.io/api and others) in version v0.0.0 and replaces
 * them with folders of its repository. The Go module proxy has each library of Kubernetes 1.N in
 * version v0.N.
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
