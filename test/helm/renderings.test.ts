/**
 * What the chart renders: as recorded, valid for each supported release of Kubernetes, and within
 * the policy of a node's proxy.
 */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, it, test } from 'node:test'
import { parse } from 'yaml'
import { loadConfiguration } from '../../src/config/load.ts'
import { CHART, helm, LEAST, needsHelm, render } from './helm.ts'
import { type KubernetesObject, problemsOf, RELEASES } from './openapi.ts'
import { DIGEST_FILE, goldenFile, goldenText, inputsDigest, objectsIn, VALUES } from './renderings.ts'

/** The parts of a pod that the policies judge. */
interface Container {
  readonly name: string
  readonly image: string
  readonly command: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
  readonly livenessProbe?: {
    readonly httpGet: { readonly path: string; readonly port: string; readonly host?: string }
  }
  readonly readinessProbe?: { readonly httpGet: { readonly path: string } }
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[]
  readonly resources: {
    readonly requests: Readonly<Record<string, string>>
    readonly limits: Readonly<Record<string, string>>
  }
  readonly securityContext: Readonly<Record<string, unknown>>
  readonly volumeMounts: readonly { readonly name: string }[]
}

interface PodSpec {
  readonly hostNetwork: boolean
  readonly hostPID?: boolean
  readonly hostIPC?: boolean
  readonly automountServiceAccountToken: boolean
  readonly priorityClassName: string
  readonly tolerations: readonly unknown[]
  readonly initContainers?: readonly Container[]
  readonly containers: readonly Container[]
  readonly volumes: readonly {
    readonly name: string
    readonly hostPath?: { readonly path: string; readonly type: string }
  }[]
}

interface PodTemplate {
  readonly metadata: {
    readonly labels: Readonly<Record<string, string>>
    readonly annotations: Readonly<Record<string, string>>
  }
  readonly spec: PodSpec
}

/** Kinds of the Prometheus operator, which Kubernetes' OpenAPI does not have. */
const OF_THE_OPERATOR = new Set(['PodMonitor', 'PrometheusRule'])

// Before the suites, which read the recorded renderings when they are declared.
if (process.env['UPDATE_GOLDEN'] === '1' && needsHelm.skip === false) {
  for (const [name, values] of VALUES) writeFileSync(goldenFile(name), render(values).output)
  writeFileSync(DIGEST_FILE, inputsDigest())
}

describe('the chart rendered by helm', needsHelm, () => {
  for (const [name, values] of VALUES)
    it(`is as recorded with the values ${name}`, () => {
      const { output, error } = render(values)
      assert.equal(error, '')
      assert.deepEqual(objectsIn(output), objectsIn(goldenText(name)))
    })

  it('has no fault that helm lint reports', () => {
    assert.deepEqual(helm(['lint', CHART, '--strict'], LEAST).error, '')
  })
})

test('the recorded renderings are of the present chart; else UPDATE_GOLDEN=1 with helm writes them (npm run helm)', () => {
  assert.equal(readFileSync(DIGEST_FILE, 'utf8'), inputsDigest())
})

/** One object of a kind. */
function find(objects: readonly KubernetesObject[], kind: string): KubernetesObject {
  const [found, ...others] = objects.filter((object) => object.kind === kind)
  assert.ok(found !== undefined && others.length === 0, `one ${kind}`)
  return found
}

function daemonSetSpec(objects: readonly KubernetesObject[]) {
  return find(objects, 'DaemonSet')['spec'] as {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly updateStrategy: { readonly rollingUpdate: { readonly maxSurge: number } }
    readonly template: PodTemplate
  }
}

for (const [name, values] of VALUES)
  describe(`the objects with the values ${name}`, () => {
    const objects = objectsIn(goldenText(name))
    const { selector, template, updateStrategy } = daemonSetSpec(objects)
    const [main] = template.spec.containers
    const [init] = template.spec.initContainers ?? []
    assert.ok(main !== undefined && init !== undefined)
    const testPod = find(objects, 'Pod')['spec'] as PodSpec
    const containers = [init, main, ...testPod.containers]

    for (const release of RELEASES)
      it(`are valid for Kubernetes ${release}`, () => {
        assert.ok(objects.length >= 6)
        for (const object of objects)
          if (!OF_THE_OPERATOR.has(object.kind)) assert.deepEqual(problemsOf(object, release), [], object.kind)
      })

    it('hold a configuration that the program accepts without a warning', () => {
      const data = objects.find(
        ({ kind, data }) => kind === 'ConfigMap' && Object(data)['config.conf'] !== undefined,
      )?.['data']
      const text = String(Object(data)['config.conf'])
      const result = loadConfiguration(text, 'config.conf')
      assert.ok('configuration' in result, JSON.stringify(result))
      assert.deepEqual(result.warnings, [])
      const { config } = values as { readonly config?: { readonly mode?: string } }
      assert.equal(result.configuration.mode, config?.mode ?? 'ipvs')
    })

    it('run nothing privileged but the init container, which ends before the daemon starts', () => {
      assert.equal(init.securityContext['privileged'], true)
      assert.ok(init.command.includes('--init-only'))
      for (const { securityContext: context, name } of [main, ...testPod.containers])
        assert.deepEqual(
          { ...context, capabilities: undefined },
          {
            runAsUser: 0,
            runAsGroup: 0,
            privileged: false,
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            seccompProfile: { type: 'RuntimeDefault' },
            capabilities: undefined,
          },
          name,
        )
      for (const { securityContext } of [main, ...testPod.containers])
        assert.deepEqual(securityContext['capabilities'], { drop: ['ALL'], add: ['NET_ADMIN', 'NET_RAW'] })
    })

    it('have no root file system that can be written, no shell, and nothing of the host but the network', () => {
      for (const { securityContext, command } of containers) {
        assert.equal(securityContext['readOnlyRootFilesystem'], true)
        assert.equal(command[0], '/usr/local/bin/kube-ipvs')
      }
      for (const { hostNetwork, hostPID, hostIPC } of [template.spec, testPod])
        assert.deepEqual([hostNetwork, hostPID, hostIPC], [true, undefined, undefined])
    })

    it('mount of the host only the lock of iptables and the folder of the local socket', () => {
      for (const { volumes } of [template.spec, testPod])
        assert.deepEqual(
          volumes.flatMap(({ hostPath }) => (hostPath === undefined ? [] : [hostPath])),
          [
            { path: '/run/xtables.lock', type: 'FileOrCreate' },
            { path: '/run/kube-ipvs', type: 'DirectoryOrCreate' },
          ],
        )
    })

    it('give the token only to containers that talk to the API server', () => {
      assert.equal(find(objects, 'ServiceAccount')['automountServiceAccountToken'], false)
      for (const spec of [template.spec, testPod]) assert.equal(spec.automountServiceAccountToken, false)
      const mounts = (container: Container) => container.volumeMounts.map(({ name }) => name)
      assert.deepEqual(mounts(init), ['config'])
      assert.ok(mounts(main).includes('api-access'))
    })

    it('reach the API server without a Service', () => {
      const { apiServer } = values as { readonly apiServer: { readonly host: string; readonly port?: number } }
      for (const { env = [] } of [main, ...testPod.containers]) {
        const value = (name: string) => env.find((one) => one.name === name)?.value
        assert.equal(value('KUBERNETES_SERVICE_HOST'), apiServer.host)
        assert.equal(value('KUBERNETES_SERVICE_PORT'), String(apiServer.port ?? 6443))
      }
    })

    it('have probes, requests, a limit of memory and none of processor time', () => {
      assert.equal(main.livenessProbe?.httpGet.path, '/livez')
      assert.equal(main.readinessProbe?.httpGet.path, '/healthz')
      for (const { resources } of containers) {
        assert.deepEqual(Object.keys(resources.requests).sort(), ['cpu', 'memory'])
        assert.deepEqual(Object.keys(resources.limits), ['memory'])
      }
    })

    it('name an image by digest or by a version, never by latest', () => {
      for (const { image } of containers) {
        assert.match(image, /^[\w./-]+(:v\d+\.\d+\.\d+|@sha256:[0-9a-f]{64})$/)
        assert.doesNotMatch(image, /latest/)
      }
    })

    it('tolerate every taint, have the highest priority and never put two proxies on a node', () => {
      assert.deepEqual(template.spec.tolerations, [{ operator: 'Exists' }])
      assert.equal(template.spec.priorityClassName, 'system-node-critical')
      assert.equal(updateStrategy.rollingUpdate.maxSurge, 0)
    })

    it('have labels that the DaemonSet selects on its own pods only', () => {
      const isSelected = (labels: Readonly<Record<string, string>> = {}) =>
        Object.entries(selector.matchLabels).every(([key, value]) => labels[key] === value)
      assert.ok(isSelected(template.metadata.labels))
      assert.ok(!isSelected(find(objects, 'Pod').metadata.labels))
    })

    it('grant only what the daemon requests', () => {
      assert.deepEqual(find(objects, 'ClusterRole')['rules'], [
        { apiGroups: [''], resources: ['nodes', 'services'], verbs: ['list', 'watch'] },
        { apiGroups: ['discovery.k8s.io'], resources: ['endpointslices'], verbs: ['list', 'watch'] },
        { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
      ])
    })
  })

describe('the chart with the values everything', () => {
  const objects = objectsIn(goldenText('everything'))

  it('listens and probes where the configuration says', () => {
    const [main] = daemonSetSpec(objects).template.spec.containers
    assert.deepEqual(
      main?.ports?.map(({ containerPort }) => containerPort),
      [10300, 10301],
    )
    assert.equal(main.livenessProbe?.httpGet.host, '2001:db8::1')
  })

  it('has the alerts with the job of the PodMonitor and links to the runbook', () => {
    const rule = find(objects, 'PrometheusRule')['spec'] as {
      readonly groups: readonly {
        readonly rules: readonly { alert: string; expr: string; annotations: { runbook_url: string } }[]
      }[]
    }
    const rules = rule.groups.flatMap(({ rules }) => rules)
    const all: readonly { alert: string }[] = parse(
      readFileSync(new URL('../../helm/files/alerts.yaml', import.meta.url), 'utf8'),
    )
    assert.deepEqual(
      rules.map(({ alert }) => alert),
      all.map(({ alert }) => alert).filter((alert) => alert !== 'KubeIpvsLongDrains'),
    )
    for (const { alert, expr, annotations } of rules) {
      assert.ok(expr.includes('job="kube-proxy"') && !expr.includes('JOB'), alert)
      assert.ok(annotations.runbook_url.endsWith(`/docs/alerts.md#${alert.toLowerCase()}`), alert)
    }
  })

  it('has the dashboard as JSON', () => {
    const map = objects.find(({ metadata }) => metadata.name === 'node-proxy-dashboard')
    const dashboard = JSON.parse(String(Object(map?.['data'])['kube-ipvs.json']))
    assert.equal(dashboard.uid, 'kube-ipvs')
    assert.ok(dashboard.panels.length > 10)
  })
})

describe('the check against OpenAPI', () => {
  const pod = (spec: object): KubernetesObject => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name: 'x' }, spec })

  it('finds unknown fields, missing fields and wrong types in each release', () => {
    for (const release of RELEASES) {
      assert.deepEqual(problemsOf(pod({ containers: [{ name: 'a' }] }), release), [])
      assert.deepEqual(problemsOf(pod({ containers: [{ name: 'a', imagePolicy: 'x' }] }), release), [
        'Pod.spec.containers[0]: unknown field "imagePolicy"',
      ])
      assert.deepEqual(problemsOf(pod({}), release), ['Pod.spec: "containers" is missing'])
      assert.deepEqual(problemsOf(pod({ containers: [{ name: 'a' }], hostNetwork: 'yes' }), release), [
        'Pod.spec.hostNetwork: string instead of boolean',
      ])
      assert.deepEqual(problemsOf({ ...pod({}), apiVersion: 'v2' }, release), ['no kind v2 Pod'])
    }
  })
})
