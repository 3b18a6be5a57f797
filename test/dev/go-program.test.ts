/** The go.mod that a program of others is built with, and a machine without Go. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { etcdGoMod, kubernetesGoMod } from '../../dev/evidence/go-mod.ts'
import { goProgram } from '../../dev/evidence/go-program.ts'

describe('the go.mod', () => {
  const own =
    'module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/api v0.0.0\n\tk8s.io/klog/v2 v2.140.0\n\tk8s.io/kms v0.0.0 // indirect\n)\n'

  it('of Kubernetes has each library of the repository as the module of the same release', () => {
    assert.equal(
      kubernetesGoMod('1.37.2', own),
      'module program\ngo 1.26.0\nrequire k8s.io/kubernetes v1.37.2\nreplace k8s.io/api => k8s.io/api v0.37.2\nreplace k8s.io/kms => k8s.io/kms v0.37.2\n',
    )
  })

  it('of etcd has its server', () => {
    assert.equal(
      etcdGoMod('3.7.3', 'module go.etcd.io/etcd/server/v3\n\ngo 1.26\n'),
      'module program\ngo 1.26\nrequire go.etcd.io/etcd/server/v3 v3.7.3\n',
    )
  })

  it('is not made from another text', () => {
    assert.throws(() => kubernetesGoMod('1.37.2', 'module x\n'), /no go\.mod of k8s\.io\/kubernetes/)
    assert.throws(() => etcdGoMod('3.7.3', 'module x\n'), /names no version of Go/)
  })
})

it('a program that is not in the cache is unmet without Go', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-go-program-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const env = { PATH: folder, KUBE_IPVS_CACHE: folder }
  for (const name of ['kube-proxy', 'kube-apiserver', 'etcd'] as const)
    await assert.rejects(goProgram(name, '1.37.2', env), /^Error: there is no Go that is new enough in PATH$/)
})
