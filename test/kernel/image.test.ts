/**
 * The image on a real kernel, in its own root file system: as kubeadm's DaemonSet starts
 * kube-proxy, and as our chart starts kube-ipvs, unprivileged with exactly the chart's
 * capabilities.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { ApiServer } from '../../dev/api-server/server.ts'
import { NODE_FLAGS } from '../../dev/node-flags.ts'
import { KUBE_PROXY_RELEASE, VERSION } from '../../src/values/well-known.ts'
import { type ContainerOptions, runContainer, startContainer } from '../support/container.ts'
import { node, service, slice } from '../support/manifests.ts'
import { freshNode, kubeLines, rulesText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { isMet, needs } from './needs.ts'

const WEB_TABLE = ['-A -t 10.96.0.1:80 -s rr', '-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 1']
const CONFIGURATION = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'ipvs',
  // The setting needs a writable /proc/sys, and belongs to the kernel's first network namespace.
  conntrack: { maxPerCore: 0 },
  clientConnection: { kubeconfig: '/var/lib/kube-proxy/kubeconfig.conf' },
}

/** kubeadm's command line and mounts; `command` of its DaemonSet replaces the entrypoint of the image. */
const KUBEADM_COMMAND = [
  '/usr/local/bin/kube-proxy',
  '--config=/var/lib/kube-proxy/config.conf',
  '--hostname-override=node0',
]

describe('the image', needs('image'), () => {
  const folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-container-'))
  let server: ApiServer
  let running: ChildProcess | undefined
  let log = ''
  before(() => {
    for (const name of ['config', 'serviceaccount']) mkdirSync(join(folder, name))
    writeFileSync(join(folder, 'serviceaccount/token'), 'a-token')
    writeFileSync(join(folder, 'config/config.conf'), JSON.stringify(CONFIGURATION))
    writeFileSync(join(folder, 'xtables.lock'), '')
  })
  after(() => rmSync(folder, { recursive: true }))
  beforeEach(async () => {
    freshNode()
    // As the init container of the chart does.
    writeFileSync('/proc/sys/net/ipv4/vs/conntrack', '1')
    log = ''
    server = new ApiServer()
    server.store.put('nodes', node(['10.0.2.15']))
    server.store.put('services', service('web', { clusterIP: '10.96.0.1' }))
    server.store.put('endpointslices', slice('web', ['10.244.0.1']))
    const cluster = { server: await server.listen(), 'insecure-skip-tls-verify': true }
    writeFileSync(
      join(folder, 'config/kubeconfig.conf'),
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{ name: 'default', cluster }],
        users: [{ name: 'default', user: { tokenFile: '/var/run/secrets/kubernetes.io/serviceaccount/token' } }],
        contexts: [{ name: 'default', context: { cluster: 'default', user: 'default' } }],
        'current-context': 'default',
      }),
    )
  })
  afterEach(async () => {
    await stop()
    await server.close()
  })

  const pod = (command: readonly string[], more: Partial<ContainerOptions> = {}): ContainerOptions => ({
    command,
    mounts: {
      '/var/lib/kube-proxy': join(folder, 'config'),
      '/run/secrets/kubernetes.io/serviceaccount': join(folder, 'serviceaccount'),
    },
    writableMounts: { '/run/xtables.lock': join(folder, 'xtables.lock') },
    ...more,
  })

  function start(options: ContainerOptions): ChildProcess {
    const child = startContainer(options)
    running = child
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk) => {
        log += chunk
      })
    return child
  }

  async function stop(): Promise<number | null> {
    const child = running
    running = undefined
    if (child === undefined || child.exitCode !== null) return child?.exitCode ?? null
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    return ended
  }

  const serves = (): Promise<void> =>
    eventually(() => assert.deepEqual(virtualServers(), WEB_TABLE, log.slice(-3000)), 60_000)

  it('prints the version under both names', async () => {
    for (const program of ['kube-ipvs', 'kube-proxy']) {
      const { code, output } = await runContainer(pod([`/usr/local/bin/${program}`, '--version']))
      assert.deepEqual([code, output], [0, `kube-ipvs v${VERSION} (kube-proxy ${KUBE_PROXY_RELEASE.version})\n`])
    }
  })

  it("serves with kubeadm's command line, mounts and rights, and ends at SIGTERM with the code of kube-proxy", async () => {
    start(pod(KUBEADM_COMMAND, { capabilities: 'privileged' }))
    await serves()
    assert.equal(await stop(), 143)
  })

  for (const [backEnd, need] of [
    ['nft', 'iptables-nft'],
    ['legacy', 'legacy-iptables'],
  ] as const) {
    it(`serves unprivileged with iptables-${backEnd} and follows changes`, needs(need), async () => {
      // kubelet's chain decides for the back end.
      for (const stem of ['iptables', 'ip6tables']) sh(`${stem}-${backEnd} -t mangle -N KUBE-IPTABLES-HINT`)
      start(pod(KUBEADM_COMMAND))
      await serves()
      server.store.put('endpointslices', slice('web', ['10.244.0.1', '10.244.0.2']))
      const more = [...WEB_TABLE, '-a -t 10.96.0.1:80 -r 10.244.0.2:8080 -m -w 1']
      await eventually(() => assert.deepEqual(virtualServers(), more.toSorted()))
      await eventually(() => assert.match(kubeLines(`iptables-${backEnd}-save`).join('\n'), /KUBE-SERVICES/))
      const other = backEnd === 'nft' ? 'legacy' : 'nft'
      if (isMet(other === 'nft' ? 'iptables-nft' : 'legacy-iptables'))
        assert.doesNotMatch(kubeLines(`iptables-${other}-save`).join('\n'), /KUBE-SERVICES/)
    })
  }

  it('serves without iptables with the nftables firewall, and starts no program for it', needs('nft'), async () => {
    // An image without iptables has no other program there (test/image/assemble.test.ts).
    const none = join(folder, 'none')
    mkdirSync(none)
    const { mounts } = pod([])
    start(pod(KUBEADM_COMMAND, { mounts: { ...mounts, '/usr/sbin': none } }))
    await serves()
    await eventually(() =>
      assert.match(rulesText('nft list set ip kube-ipvs cluster-ips'), /10\.96\.0\.1 \. tcp \. 80/, log.slice(-3000)),
    )
    assert.match(log, /"Using the firewall".*nftables/)
    assert.doesNotMatch(kubeLines('iptables-nft-save').join('\n'), /KUBE-SERVICES/)
  })

  it('runs node with the flags of dev/node-flags.ts, only the two capabilities, and no way to gain more', async () => {
    const child = start(pod(KUBEADM_COMMAND))
    await serves()
    const words = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8').split('\0')
    assert.deepEqual(words.slice(0, 1 + NODE_FLAGS.length), ['/usr/local/bin/node', ...NODE_FLAGS])
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
    // Bits 12 and 13 of linux/capability.h.
    for (const set of ['CapPrm', 'CapEff', 'CapBnd'])
      assert.match(status, new RegExp(`^${set}:\\t0000000000003000$`, 'm'))
    assert.match(status, /^NoNewPrivs:\t1$/m)
  })

  it('ends with one clear sentence when it is started without NET_ADMIN', async () => {
    const { code, output } = await runContainer(pod(KUBEADM_COMMAND, { capabilities: [] }))
    assert.equal(code, 1)
    assert.match(
      output,
      /err="writing the kernel's tables takes the capability NET_ADMIN, which this process does not have: /,
    )
    assert.deepEqual(virtualServers(), [])
  })

  it('has no shell: a program that asks for one fails', async () => {
    const { code, output } = await runContainer(pod(['/bin/sh', '-c', 'true']))
    assert.notEqual(code, 0)
    assert.match(output, /execve of \/bin\/sh failed: ENOENT/)
  })
})
