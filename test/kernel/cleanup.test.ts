/** `--cleanup` on a real kernel: one run removes what proxies of every mode left, and nothing else. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { boundAddresses, freshNode, kubeLines, setsText, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'
import { recordingPath } from '../support/recordings.ts'
import { isMet, needs } from './needs.ts'

const suffix = isMet('iptables-nft') ? '' : '-legacy'
const SAVES = [`iptables${suffix}-save`, `ip6tables${suffix}-save`]
const CASE = 'cases/all-kinds/recorded/iptables/1'
/** What a node has that is none of ours: of kubelet, and of an administrator. */
const FOREIGN = `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
COMMIT
*filter
:MINE - [0:0]
-A INPUT -s 192.0.2.0/24 -j MINE
-A MINE -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
`

let bench: Workbench
beforeEach(() => {
  freshNode()
  bench = new Workbench()
})
afterEach(() => bench.close())

/** Rules and chains of both families, without counters. */
const rules = (): string[] =>
  SAVES.flatMap((save) =>
    sh(save)
      .split('\n')
      .filter((line) => /^(:|-A)/.test(line))
      .map((line) => line.replace(/ \[\d+:\d+\]$/, '')),
  )
const withoutBuiltIn = (): string[] =>
  rules().filter((line) => !/^:[A-Z]+ (ACCEPT|-)$/.test(line) || line === ':MINE -')

function restore(text: string, family: 'iptables' | 'ip6tables'): void {
  const file = `${bench.directory}/rules`
  writeFileSync(file, text)
  sh(`${family}${suffix}-restore --noflush < ${file}`)
}

/** What kube-proxy's iptables mode leaves; its counters of dropped packets are separate objects and omitted. */
function iptablesModeRan(): void {
  for (const family of ['iptables', 'ip6tables'] as const) {
    const text = readFileSync(recordingPath(`${CASE}/${family}.txt`), 'utf8')
    restore(
      text
        .split('\n')
        .filter((line) => !line.includes('nfacct'))
        .join('\n'),
      family,
    )
  }
}

async function ipvsModeRan(): Promise<void> {
  bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
  const daemon = bench.start()
  await eventually(() => assert.deepEqual(boundAddresses(), ['10.96.0.1/32']))
  assert.equal(await bench.stop(daemon), 143)
}

describe('--cleanup', () => {
  it('removes at the first run what every mode left, and nothing of others', async () => {
    for (const family of ['iptables', 'ip6tables'] as const)
      restore(family === 'iptables' ? FOREIGN : FOREIGN.replace('192.0.2.0/24', '2001:db8::/32'), family)
    const before = rules()
    await ipvsModeRan()
    iptablesModeRan()
    if (isMet('nft')) sh('nft add table ip kube-proxy; nft add table ip6 kube-proxy; nft add table ip mine')
    sh('ipset create MY-SET hash:ip; ipvsadm -A -f 7 -s wlc')
    const first = await bench.run('--cleanup')
    assert.deepEqual([first.code, first.stderr], [0, ''])
    // It may belong to kubelet.
    const firewall = [':KUBE-FIREWALL -', '-A INPUT -j KUBE-FIREWALL', '-A OUTPUT -j KUBE-FIREWALL']
    const left = rules().filter((line) => !firewall.includes(line) && !/-A KUBE-FIREWALL .*block incoming/.test(line))
    assert.deepEqual(
      left.filter((line) => !before.includes(line) && !/^:[A-Z]+ ACCEPT$/.test(line)),
      [],
    )
    for (const line of before) assert.ok(left.includes(line), `${line} was removed`)
    assert.deepEqual(virtualServers(), ['-A -f 7 -s wlc'])
    assert.throws(() => sh('ip link show kube-ipvs0 2>&1'))
    assert.equal(setsText('list', '-n').trim(), 'MY-SET')
    if (isMet('nft')) assert.doesNotMatch(sh('nft list tables'), /kube-proxy/)
    const second = await bench.run('--cleanup')
    assert.deepEqual([second.code, second.stdout, second.stderr], [0, '', ''])
  })

  it('needs no API server and does not change kernel settings', async () => {
    await ipvsModeRan()
    const settings = (): string => sh('cat /proc/sys/net/ipv4/vs/conntrack /proc/sys/net/ipv4/ip_forward')
    assert.equal(settings(), '1\n1\n')
    assert.equal((await bench.run('--cleanup')).code, 0)
    assert.equal(settings(), '1\n1\n')
  })

  it('empties and reports a chain that a rule of others leads to', async () => {
    await ipvsModeRan()
    sh(`iptables${suffix} -t nat -N MINE && iptables${suffix} -t nat -A MINE -j KUBE-MARK-MASQ`)
    const { code, stdout, stderr } = await bench.run('--cleanup')
    assert.equal(code, 1, `${stdout}${stderr}${rules().join('\n')}`)
    assert.match(stderr, /KUBE-MARK-MASQ of nat was emptied but could not be deleted/)
    sh(`iptables${suffix} -t nat -F MINE; iptables${suffix} -t nat -X MINE`)
    assert.equal((await bench.run('--cleanup')).code, 0)
    assert.deepEqual(withoutBuiltIn(), [])
  })
})

describe('cleanup where both back ends of iptables hold chains', needs('iptables-nft', 'legacy-iptables'), () => {
  const save = (backEnd: string): string[] =>
    sh(`iptables-${backEnd}-save; ip6tables-${backEnd}-save`)
      .split('\n')
      .filter((line) => /^(:KUBE|-A)/.test(line))

  it('is what a start asks for, with one line that says what the other back end holds', async () => {
    // kubelet decides which back end is used, whatever the number of rules.
    sh('iptables-nft -t mangle -N KUBE-KUBELET-CANARY')
    const file = `${bench.directory}/legacy`
    const left = readFileSync(recordingPath('cases/all-kinds/recorded/ipvs/1/iptables.txt'), 'utf8')
    writeFileSync(file, left.replaceAll(/^.*--match-set.*\n/gm, ''))
    sh(`iptables-legacy-restore < ${file}; rm ${file}`)
    const chains = save('legacy').filter((line) => line.startsWith(':KUBE')).length
    bench.write('web.yaml', service('web', { clusterIP: '10.96.0.1' }), slice('web', ['10.244.0.1']))
    const daemon = bench.start()
    const start = `${chains} chains of a service proxy are in iptables-legacy, while this node uses iptables-nft`
    await eventually(() => assert.ok(bench.log.includes(start), bench.log))
    assert.equal(bench.log.split('in iptables-legacy').length, 2, 'it is one line')
    const other = async (): Promise<unknown> =>
      JSON.parse((await bench.command('status', '--output', 'json')).stdout).iptables.other
    assert.deepEqual(await other(), { backEnd: 'legacy', chains })
    await bench.stop(daemon)
    assert.equal((await bench.run('cleanup')).code, 0)
    assert.equal(await other(), null)
    sh('iptables-nft -t mangle -X KUBE-KUBELET-CANARY')
  })

  it('removes those of both, and nothing of others', async () => {
    await ipvsModeRan()
    const rules = readFileSync(recordingPath('cases/all-kinds/recorded/ipvs/1/iptables.txt'), 'utf8')
    const file = `${bench.directory}/legacy`
    writeFileSync(file, rules)
    sh(`iptables-legacy-restore < ${file}; rm ${file}`)
    sh('iptables-legacy -A INPUT -s 192.0.2.1 -j DROP; iptables-nft -A INPUT -s 192.0.2.2 -j DROP')
    for (const backEnd of ['nft', 'legacy']) assert.ok(save(backEnd).some((line) => line.includes('KUBE-SERVICES')))
    const preview = await bench.run('cleanup', '--dry-run')
    assert.deepEqual([preview.code, preview.stderr], [0, ''])
    const { code, stdout, stderr } = await bench.run('cleanup')
    assert.deepEqual([code, stderr, stdout], [0, '', preview.stdout])
    assert.deepEqual(
      [save('legacy'), save('nft'), setsText('list', '-n')],
      [['-A INPUT -s 192.0.2.1/32 -j DROP'], ['-A INPUT -s 192.0.2.2/32 -j DROP'], ''],
    )
    const again = await bench.run('cleanup')
    assert.deepEqual([again.code, again.stdout, again.stderr], [0, '', ''])
  })
})

describe(
  'cleanup where programs of a back end or a family are missing',
  needs('iptables-nft', 'legacy-iptables'),
  () => {
    const CHAIN = '*nat\\n:KUBE-SERVICES -\\n-A PREROUTING -j KUBE-SERVICES\\nCOMMIT\\n'
    const write = (program: string): void => void sh(`printf '${CHAIN}' | ${program}-restore`)
    /** This mount namespace is the test's own. */
    const hide = (patterns: string): void =>
      void sh(
        `folder=$(mktemp -d /run/sbin-XXXXXX) && cp -a /usr/sbin/. $folder && cd $folder && rm -f ${patterns} && mount --bind $folder /usr/sbin`,
      )
    const show = (): void => void sh('while grep -q " /usr/sbin " /proc/mounts; do umount /usr/sbin; done')
    afterEach(show)

    for (const [missing, patterns, program] of [
      ['of iptables-nft', '*tables*nft* ip*tables ip*tables-save ip*tables-restore', 'iptables-nft'],
      ['of IPv6', 'ip6tables*', 'ip6tables-nft'],
    ] as const)
      it(`removes chains in nf_tables where no programs ${missing} are installed`, async () => {
        write(program)
        hide(patterns)
        const preview = await bench.run('cleanup', '--dry-run')
        assert.match(preview.stdout, /^nft delete chain ip6? nat KUBE-SERVICES$/m)
        const { code, stdout, stderr } = await bench.run('cleanup')
        assert.deepEqual([code, stderr, stdout], [0, '', preview.stdout])
        show()
        assert.deepEqual(kubeLines(`${program}-save`), [])
      })

    for (const [missing, patterns, program] of [
      ['of iptables-legacy', '*legacy*', 'iptables'],
      ['of IPv6', 'ip6tables*', 'ip6tables'],
      ['at all', 'ip*tables*', 'ip6tables'],
    ] as const)
      it(`names tables of iptables-legacy where no programs ${missing} are installed, and ends with 1`, async () => {
        write(`${program}-legacy`)
        hide(patterns)
        for (const flags of [[], ['--dry-run']]) {
          const { code, stdout, stderr } = await bench.run('cleanup', ...flags)
          const reason = `no ${program}-save and ${program}-restore of legacy are installed`
          assert.deepEqual([code, stdout, stderr.split('\n').length], [1, '', 2], stderr)
          assert.ok(stderr.includes(`kube-ipvs cleanup: ${program}-legacy-save -t nat: ${reason}`), stderr)
        }
        show()
        assert.equal((await bench.run('cleanup')).code, 0)
        assert.deepEqual(kubeLines(`${program}-legacy-save`), [])
      })
  },
)

describe('--init-only', () => {
  it('writes the kernel settings and nothing else', async () => {
    sh(
      'for name in conntrack expire_nodest_conn expire_quiescent_template; do echo 0 > /proc/sys/net/ipv4/vs/$name; done',
    )
    const { code, stderr } = await bench.run('--init-only', '--proxy-mode=ipvs', '-v=2')
    assert.equal(code, 0)
    for (const name of ['conntrack', 'expire_nodest_conn', 'expire_quiescent_template'])
      assert.match(stderr, new RegExp(`"Changed sysctl" name="net/ipv4/vs/${name}" before=0 after=1`))
    for (const family of ['IPv4', 'IPv6'])
      assert.match(stderr, new RegExp(`"System initialized and --init-only specified" ipFamily="${family}"`))
    assert.equal(sh('cat /proc/sys/net/ipv4/vs/conntrack'), '1\n')
    assert.deepEqual([virtualServers(), setsText('list', '-n'), withoutBuiltIn()], [[], '', []])
    assert.throws(() => sh('ip link show kube-ipvs0 2>&1'))
  })
})
