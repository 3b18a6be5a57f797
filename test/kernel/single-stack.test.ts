/**
 * The whole daemon where only one IP family can be served, in both modes: it does not touch the
 * other one, logs that once, and its health ports judge by the served family.
 */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { freshNode, rulesText, setsText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { isMet } from './needs.ts'

const suffix = isMet('iptables-nft') ? '-nft' : '-legacy'
const BOTH = service('both', {
  type: 'NodePort',
  clusterIPs: ['10.96.0.1', 'fd00:10:96::1'],
  ipFamilies: ['IPv4', 'IPv6'],
  ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30080 }],
})

/** The syncPeriod: a pass that takes twice as long makes the proxy unhealthy. */
const PERIOD_MS = 2000

let bench: Workbench
beforeEach(() => {
  setIpv6('enabled')
  freshNode()
  showPrograms()
})
afterEach(async () => {
  await bench.close()
  setIpv6('enabled')
  showPrograms()
})

function setIpv6(state: 'enabled' | 'disabled'): void {
  for (const what of ['all', 'default', 'lo'])
    writeFileSync(`/proc/sys/net/ipv6/conf/${what}/disable_ipv6`, state === 'enabled' ? '0' : '1')
}

/** This mount namespace is the test's own. */
function hidePrograms(stem: 'iptables' | 'ip6tables'): void {
  sh(
    `folder=$(mktemp -d /run/sbin-XXXXXX) && cp -a /usr/sbin/. $folder && rm $folder/${stem}* && mount --bind $folder /usr/sbin`,
  )
}

function showPrograms(): void {
  sh('while grep -q " /usr/sbin " /proc/mounts; do umount /usr/sbin; done')
}

function begin(mode: 'ipvs' | 'iptables', more: object = {}): void {
  const periods = { syncPeriod: `${PERIOD_MS}ms`, minSyncPeriod: '0s' }
  bench = new Workbench(periods, { mode, ...(mode === 'ipvs' ? {} : { iptables: periods }), ...more })
  bench.write('both.yaml', BOTH, slice('both', ['10.244.0.1']), slice('both', ['fd00:244::1'], { addressType: 'IPv6' }))
}

/** Whether the Service is in the kernel in this family. */
function serves(mode: 'ipvs' | 'iptables', family: 'IPv4' | 'IPv6'): boolean {
  const address = family === 'IPv4' ? '10.96.0.1' : 'fd00:10:96::1'
  if (mode === 'ipvs') return virtualServers().some((line) => line.startsWith('-a') && line.includes(address))
  return rulesText(`${family === 'IPv4' ? 'iptables' : 'ip6tables'}${suffix}-save -t nat`).includes(`-d ${address}/`)
}

interface Live {
  readonly lastUpdated: string
  readonly healthy: boolean
  readonly status: Readonly<Record<string, { readonly healthy: boolean }>>
}

async function live(): Promise<{ readonly status: number; readonly body: Live }> {
  const answer = await fetch('http://127.0.0.1:10256/livez')
  return { status: answer.status, body: (await answer.json()) as Live } // the body is kube-proxy's
}

/**
 * Asks until something that is wrong since now would have made it unhealthy, twice 2 x syncPeriod;
 * every answer is 200.
 */
async function staysLive(families: readonly string[]): Promise<void> {
  await eventually(async () => assert.equal((await live()).status, 200))
  const sinceMs = Date.now()
  const unhealthy: string[] = []
  await eventually(
    async () => {
      const { status, body } = await live()
      if (status !== 200) unhealthy.push(JSON.stringify(body))
      else assert.deepEqual(Object.keys(body.status), families)
      assert.ok(unhealthy.length > 0 || Date.parse(body.lastUpdated) - sinceMs > 4 * PERIOD_MS)
    },
    30_000,
    200,
  )
  assert.deepEqual(unhealthy, [])
}

const times = (text: string): number => bench.log.split(text).length - 1
const errorsAboutIpv6 = (): string[] => bench.log.split('\n').filter((line) => /^[EW].*(IPv6|fd00:)/.test(line))

for (const mode of ['ipvs', 'iptables'] as const) {
  describe(`${mode} mode where disable_ipv6 is 1`, () => {
    it('serves IPv4, does not change IPv6 and is healthy', async () => {
      setIpv6('disabled')
      begin(mode)
      bench.start()
      await eventually(() => assert.ok(serves(mode, 'IPv4')))
      await staysLive(['IPv4'])
      assert.equal(times('"Kernel support disabled for family" ipFamily="IPv6"'), 1)
      assert.equal(times('"kube-proxy running in single-stack mode" ipFamily="IPv4"'), 1)
      assert.deepEqual(errorsAboutIpv6(), [])
      assert.ok(!serves(mode, 'IPv6'))
      assert.doesNotMatch(sh(`ip6tables${suffix}-save`), /KUBE-/)
      assert.doesNotMatch(setsText('list', '-n'), /KUBE-6-/)
    })

    it('ends the start when IPv6 is the primary family', async () => {
      setIpv6('disabled')
      begin(mode, { bindAddress: 'fd00::15' })
      const { code, stderr } = await bench.command('')
      assert.equal(code, 1)
      assert.match(stderr, /^E.*"Error running ProxyServer" err="no support for primary IP family \\"IPv6\\""$/m)
    })

    it('continues and stays healthy when IPv6 is switched off while it runs', async () => {
      begin(mode)
      bench.start()
      await eventually(() => assert.ok(serves(mode, 'IPv4') && serves(mode, 'IPv6')))
      await eventually(async () => assert.equal((await live()).status, 200))
      setIpv6('disabled')
      if (mode === 'ipvs') sh('echo 1 >/proc/sys/net/ipv6/conf/kube-ipvs0/disable_ipv6')
      bench.write('more.yaml', service('more', { clusterIP: '10.96.0.9' }), slice('more', ['10.244.0.5']))
      await staysLive(['IPv4', 'IPv6'])
      assert.ok(serves(mode, 'IPv4'))
      const tries = times('RTM_NEWADDR')
      assert.ok(tries < 20, `${tries} lines about addresses`)
    })
  })

  describe(`${mode} mode without the programs of a family`, () => {
    it('serves IPv4 without ip6tables, and is healthy', async () => {
      hidePrograms('ip6tables')
      begin(mode)
      const daemon = bench.start()
      await eventually(() => assert.ok(serves(mode, 'IPv4')))
      await staysLive(['IPv4'])
      await eventually(() =>
        assert.match(bench.log, /"No iptables support for family" err="no ip6tables-save and .*" ipFamily="IPv6"/),
      )
      assert.equal(times('"kube-proxy running in single-stack mode" ipFamily="IPv4"'), 1)
      assert.deepEqual(errorsAboutIpv6(), [])
      assert.doesNotMatch(setsText('list', '-n'), /KUBE-6-/)
      if (mode === 'ipvs') assert.ok(!serves(mode, 'IPv6'))
      const diff = await bench.command('diff')
      assert.equal(diff.code, 0, diff.stdout + diff.stderr)
      // A daemon that runs would put back what the cleanup removes.
      await bench.stop(daemon)
      const cleanup = await bench.command('cleanup')
      assert.equal(cleanup.code, 0, cleanup.stdout + cleanup.stderr)
    })

    it('serves only IPv6 without iptables when IPv6 is the primary family', async () => {
      hidePrograms('iptables')
      begin(mode, { bindAddress: 'fd00::15', metricsBindAddress: '[::1]:10249' })
      bench.start()
      await eventually(() => assert.ok(serves(mode, 'IPv6')))
      await eventually(() => assert.match(bench.log, /"kube-proxy running in single-stack mode" ipFamily="IPv6"/))
      await staysLive(['IPv6'])
    })

    it('ends the start without iptables when IPv4 is the primary family', async () => {
      hidePrograms('iptables')
      begin(mode)
      const { code, stderr } = await bench.command('')
      assert.equal(code, 1)
      assert.match(stderr, /err="no support for primary IP family \\"IPv4\\""/)
    })
  })
}
