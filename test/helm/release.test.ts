/**
 * The life of a release with real helm: install, test, upgrade, and a removal that leaves the nodes
 * alone or cleans them.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parse } from 'yaml'
import { API_VERSION as apiVersion, KIND as kind } from '../../src/config/schema.ts'
import { Cluster } from './cluster.ts'
import { valueAt } from '../../src/config/values.ts'
import { CHART, helmWith, LEAST, needsHelm } from './helm.ts'
import { problemsOf, RELEASES } from './openapi.ts'

const NODES = ['node-a', 'node-b', 'node-c']
const NAMESPACE = ['--namespace', 'kube-system']

/** Runs helm commands against a cluster of these nodes and one of Windows. */
async function withCluster(
  run: (helm: (command: readonly string[], values?: object) => Promise<string>, cluster: Cluster) => Promise<void>,
): Promise<void> {
  const cluster = new Cluster()
  const kubeconfig = await cluster.start()
  try {
    for (const name of NODES) cluster.add(`/api/v1/nodes/${name}`)
    cluster.add('/api/v1/nodes/windows', { metadata: { name: 'windows', labels: { 'kubernetes.io/os': 'windows' } } })
    await run(async (command, values) => {
      const { output, error } = await helmWith([...command, ...NAMESPACE], values, kubeconfig)
      assert.equal(error, '')
      return output
    }, cluster)
  } finally {
    await cluster.stop()
  }
}

const AFFINITY = [
  'affinity',
  'nodeAffinity',
  'requiredDuringSchedulingIgnoredDuringExecution',
  'nodeSelectorTerms',
  '0',
  'matchFields',
  '0',
]

const install = ['install', 'kube-ipvs', CHART]

describe('a release of the chart', needsHelm, () => {
  it('is installed, tested and removed without touching the nodes', async () => {
    await withCluster(async (helm, cluster) => {
      const notes = await helm(install, LEAST)
      assert.match(notes, /service proxy of the cluster in ipvs mode/)
      assert.doesNotMatch(notes, /helm uninstall will remove/)
      assert.deepEqual(
        cluster.objects('daemonsets').map(({ metadata }) => metadata.name),
        ['kube-ipvs'],
      )
      assert.match(await helm(['test', 'kube-ipvs']), /Phase: +Succeeded/)
      await helm(['uninstall', 'kube-ipvs'])
      assert.deepEqual(cluster.objects('daemonsets'), [])
      assert.deepEqual(
        cluster.log.filter((line) => line.includes(' jobs ')),
        [],
      )
    })
  })

  it('is installed with a warning where kube-proxy still runs, and without one where it is only there', async () => {
    await withCluster(async (helm, cluster) => {
      const notes = (): Promise<string> => helm([...install, '--dry-run=server'], LEAST)
      assert.doesNotMatch(await notes(), /WARNING|way back/)
      const add = (desiredNumberScheduled: number): void =>
        cluster.add('/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy', {
          status: { desiredNumberScheduled },
        })
      add(3)
      assert.match(await notes(), /WARNING: the DaemonSet kube-proxy runs on 3 nodes\./)
      add(0)
      const quiet = await helm(install, LEAST)
      assert.match(quiet, /The DaemonSet kube-proxy in kube-system runs on no node, and is the way back/)
      assert.doesNotMatch(quiet, /WARNING/)
    })
  })

  it('is upgraded without a restart when only fields change that a running daemon applies', async () => {
    await withCluster(async (helm, cluster) => {
      const config = { mode: 'ipvs', logging: { verbosity: 0 }, conntrack: { min: 1000 } }
      await helm(install, { ...LEAST, config })
      const podTemplate = () => valueAt(cluster.objects('daemonsets')[0], ['spec', 'template'])
      /** Whether the DaemonSet replaces its pods for a configuration. */
      const restarts = async (changed: object): Promise<boolean> => {
        const before = JSON.stringify(podTemplate())
        await helm(['upgrade', 'kube-ipvs', CHART], { ...LEAST, config: changed })
        const [map] = cluster.objects('configmaps')
        assert.deepEqual(parse(String(valueAt(map, ['data', 'config.conf']))), { apiVersion, kind, ...changed })
        return JSON.stringify(podTemplate()) !== before
      }
      assert.equal(await restarts({ ...config, mode: 'iptables' }), false)
      assert.equal(await restarts(config), false)
      const live = { ...config, logging: { verbosity: 4 }, nodePortAddresses: ['primary'] }
      assert.equal(await restarts(live), false)
      assert.equal(await restarts({ ...live, ipvs: { scheduler: 'lc' } }), true)
      // The init container has to write it.
      assert.equal(await restarts({ ...live, ipvs: { scheduler: 'lc' }, conntrack: { min: 2000 } }), true)
    })
  })

  it('is removed with a Job on each node when cleanupOnUninstall is set, all started before helm waits', async () => {
    await withCluster(async (helm, cluster) => {
      const notes = await helm(install, { ...LEAST, cleanupOnUninstall: true })
      assert.match(notes, /from the kernels of 3 nodes/)
      assert.deepEqual(cluster.objects('jobs'), [])
      await helm(['uninstall', 'kube-ipvs'])
      const creations = cluster.log.flatMap((line, at) =>
        /^(POST|PATCH) jobs kube-ipvs-cleanup-/.test(line) ? [at] : [],
      )
      const [first = 0, , last = 0] = creations
      assert.equal(creations.length, 3)
      assert.ok(cluster.log.slice(0, first).includes('DELETE daemonsets kube-ipvs'))
      assert.ok(cluster.log.findIndex((line) => line.startsWith('WATCH jobs')) > last, cluster.log.join('\n'))
      assert.deepEqual([...cluster.objects('jobs'), ...cluster.objects('configmaps')], [])
    })
  })

  it('cleans each node once, without privileges and without a token, in valid objects', async () => {
    await withCluster(async (helm, cluster) => {
      await helm(install, { ...LEAST, cleanupOnUninstall: true })
      await helm(['uninstall', 'kube-ipvs'])
      // helm stores its releases as Secrets.
      const ours = cluster.created.filter(({ kind }) => kind !== 'Secret')
      for (const release of RELEASES)
        for (const object of ours) assert.deepEqual(problemsOf(object, release), [], `${object.kind} for ${release}`)
      const jobs = cluster.created.filter(({ kind }) => kind === 'Job')
      const nodes = jobs.map(({ spec }) => valueAt(spec, ['template', 'spec', ...AFFINITY, 'values', '0']))
      assert.deepEqual(nodes.sort(), NODES)
      const [daemon] = cluster.created.filter(({ kind }) => kind === 'DaemonSet')
      const main = ['template', 'spec', 'containers', '0']
      for (const { spec } of jobs) {
        // The same ports, so that a Job waits until the daemon of its node has ended.
        for (const same of ['ports', 'securityContext', 'image'])
          assert.deepEqual(valueAt(spec, [...main, same]), valueAt(daemon?.['spec'], [...main, same]), same)
        assert.deepEqual(valueAt(spec, [...main, 'command', '1']), 'cleanup')
        assert.equal(valueAt(spec, ['template', 'spec', 'automountServiceAccountToken']), false)
        assert.equal(valueAt(spec, ['template', 'spec', 'serviceAccountName']), undefined)
        // The DaemonSet selects its pods by this label.
        assert.equal(valueAt(spec, ['template', 'metadata', 'labels', 'app.kubernetes.io/component']), undefined)
      }
    })
  })
})
