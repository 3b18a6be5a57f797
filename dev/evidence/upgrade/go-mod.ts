/** The go.mod that a program of k8s.io/kubernetes is built with. Pure. */

/**
 * That module has its libraries (k8s.io/api and others) as folders of the same repository, with the
 * version v0.0.0; each is also a module of its own, with the version v0.N of Kubernetes 1.N.
 * @param release `1.37.2` @param own text of the module's go.mod
 */
export function goMod(release: string, own: string): string {
  const go = /^go (\S+)$/m.exec(own)?.[1]
  const libraries = [...own.matchAll(/^\s+(k8s\.io\/\S+) v0\.0\.0(?: \/\/.*)?$/gm)].map(([, path]) => path)
  if (go === undefined || libraries.length === 0) throw new Error('that is no go.mod of k8s.io/kubernetes')
  const version = `v${release.replace(/^1\./, '0.')}`
  return [
    'module kube-proxy',
    `go ${go}`,
    `require k8s.io/kubernetes v${release}`,
    ...libraries.map((path) => `replace ${path} => ${path} ${version}`),
    '',
  ].join('\n')
}
