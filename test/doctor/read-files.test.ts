/** What doctor reads of files: of a made-up host, of strange ones, and of this machine. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, it, test } from 'node:test'
import { globMatches, LOOPBACK, readNetworkFile, readSysctlFile } from '../../src/doctor/network-file.ts'
import {
  hasNetAdmin,
  readCiliumReplacement,
  readConntrack,
  readKeepalivedServers,
  readKubeProxyOrigins,
  readNetworkd,
  readProcesses,
  readSettings,
  readSysctlLines,
  readText,
  readUnmanagedDevices,
} from '../../src/doctor/read-files.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kube-ipvs-doctor-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function write(path: string, text: string): void {
  mkdirSync(dirname(root + path), { recursive: true })
  writeFileSync(root + path, text)
}

function link(path: string, target: string): void {
  mkdirSync(dirname(root + path), { recursive: true })
  symlinkSync(target, root + path)
}

interface Process {
  readonly comm: string
  readonly net?: string
  readonly exe?: string
  readonly words?: readonly string[]
}

/** The first PID namespace of a kernel. */
const HOST_PIDS = 'pid:[4026531836]'

/** A host whose processes are these, by their ids. */
function processes(all: Readonly<Record<number, Process>>, pidNamespace = HOST_PIDS): void {
  write('/proc/1/comm', 'systemd\n')
  link('/proc/self/ns/net', 'net:[1]')
  link('/proc/self/ns/pid', pidNamespace)
  for (const [pid, { comm, net = 'net:[1]', exe, words = [] }] of Object.entries(all)) {
    write(`/proc/${pid}/comm`, `${comm}\n`)
    write(`/proc/${pid}/cmdline`, words.join('\0'))
    link(`/proc/${pid}/ns/net`, net)
    if (exe !== undefined) link(`/proc/${pid}/exe`, exe)
  }
}

describe('readProcesses', () => {
  it('finds programs of the network namespace, and of their arguments only known switches', async () => {
    processes({
      10: { comm: 'kube-proxy', exe: '/usr/local/bin/kube-proxy', words: ['kube-proxy', '--token=secret'] },
      11: { comm: 'k3s-server', words: ['k3s', 'server', '--token', 'secret', '--disable-kube-proxy'] },
      12: { comm: 'systemd-network' },
      13: { comm: 'bash' },
      14: { comm: 'toString' },
      15: { comm: 'k3s-agent', words: ['/usr/local/bin/k3s agent'] },
      16: { comm: 'rke2', words: ['/usr/bin/rke2', 'agent'] },
      17: { comm: 'rke2', words: ['/usr/local/bin/rke2 agent'] },
      18: { comm: 'k3s-server', words: ['/usr/local/bin/k3s server'] },
    })
    assert.deepEqual(await readProcesses(root), {
      hiddenProcesses: null,
      processes: [
        { program: 'kube-proxy', pid: 10, switches: [] },
        { program: 'k3s', pid: 11, switches: ['--disable-kube-proxy'] },
        { program: 'systemd-networkd', pid: 12, switches: [] },
        { program: 'k3s', pid: 15, switches: ['agent'] },
        { program: 'rke2', pid: 16, switches: ['agent'] },
        { program: 'rke2', pid: 17, switches: ['agent'] },
        { program: 'k3s', pid: 18, switches: [] },
      ],
    })
  })

  it('ignores processes of pods with the name, and kube-ipvs that answers to it', async () => {
    processes({
      10: { comm: 'kube-proxy', net: 'net:[99]' },
      11: { comm: 'kube-proxy', exe: '/usr/local/bin/node' },
    })
    assert.deepEqual(await readProcesses(root), { processes: [], hiddenProcesses: null })
  })

  it('says so where the processes of the host are not visible, unless kubelet is', async () => {
    processes({ 10: { comm: 'kube-ipvs' } }, 'pid:[7]')
    assert.match((await readProcesses(root)).hiddenProcesses ?? '', /hostPID/)
    write('/proc/11/comm', 'kubelet\n')
    assert.equal((await readProcesses(root)).hiddenProcesses, null)
  })
})

describe('readText', () => {
  it('reads up to the bound, and neither waits for a FIFO nor fails on a folder', () => {
    write('/long', 'x'.repeat(100_000))
    execFileSync('mkfifo', [`${root}/fifo`])
    assert.equal(readText(`${root}/long`, 70_000)?.length, 70_000)
    assert.equal(readText(`${root}/fifo`), '')
    assert.equal(readText(root), undefined)
    assert.equal(readText(`${root}/none`), undefined)
  })
})

test('readSettings leaves out what the kernel does not have and what is no number', () => {
  write('/proc/sys/net/ipv4/ip_forward', '1\n')
  write('/proc/sys/net/ipv4/vs/conntrack', 'x\n')
  assert.deepEqual(readSettings(root), { 'net/ipv4/ip_forward': 1 })
})

test('readConntrack needs both numbers', () => {
  assert.ok('unseen' in readConntrack(root))
  write('/proc/sys/net/netfilter/nf_conntrack_count', '12\n')
  write('/proc/sys/net/netfilter/nf_conntrack_max', '100\n')
  assert.deepEqual(readConntrack(root), { value: { count: 12, max: 100 } })
})

test('readSysctlLines orders files by name, and a file in /etc replaces one of the same name', () => {
  write('/usr/lib/sysctl.d/50-default.conf', 'net.ipv4.conf.all.rp_filter = 2\n')
  write('/usr/lib/sysctl.d/10-forward.conf', 'net.ipv4.ip_forward=1\n')
  write('/etc/sysctl.d/10-forward.conf', '# off\n-net/ipv4/ip_forward = 0\nvm.swappiness = 1\n')
  write('/etc/sysctl.conf', 'net.ipv6.conf.all.forwarding=0\n')
  assert.deepEqual(readSysctlLines(root), [
    { file: '/etc/sysctl.d/10-forward.conf', name: 'net/ipv4/ip_forward', value: '0' },
    { file: '/usr/lib/sysctl.d/50-default.conf', name: 'net/ipv4/conf/all/rp_filter', value: '2' },
    { file: '/etc/sysctl.conf', name: 'net/ipv6/conf/all/forwarding', value: '0' },
  ])
})

test('readSysctlFile keeps dots of interface names', () => {
  const text =
    'net/ipv4/conf/eth0.1/rp_filter = 1\nnet.ipv4.conf.eth0/1.rp_filter=2\n; x\nnet.ipv4.conf.*.rp_filter=1\n'
  assert.deepEqual(readSysctlFile(text), [
    ['net/ipv4/conf/eth0.1/rp_filter', '1'],
    ['net/ipv4/conf/eth0.1/rp_filter', '2'],
  ])
})

test('readUnmanagedDevices joins what files say as NetworkManager does', () => {
  write('/usr/lib/NetworkManager/conf.d/50-x.conf', '[keyfile]\nunmanaged-devices=type:tun\n')
  write('/etc/NetworkManager/conf.d/10-x.conf', '[keyfile]\nunmanaged-devices += type:veth \n')
  assert.deepEqual(readUnmanagedDevices(root), ['type:tun', 'type:veth'])
  write('/etc/NetworkManager/NetworkManager.conf', '[keyfile]\nunmanaged-devices=interface-name:a;interface-name:b\n')
  assert.deepEqual(readUnmanagedDevices(root), ['interface-name:a;interface-name:b', 'type:veth'])
  write('/etc/NetworkManager/conf.d/20-x.conf', '[keyfile]\nunmanaged-devices-=interface-name:a\n')
  assert.deepEqual(readUnmanagedDevices(root), ['interface-name:b', 'type:veth'])
  write('/etc/NetworkManager/conf.d/30-canal.conf', '[keyfile]\nunmanaged-devices=interface-name:cali*\n')
  assert.deepEqual(readUnmanagedDevices(root), ['interface-name:cali*'])
})

test('readKeepalivedServers knows whether keepalived has virtual servers', () => {
  assert.equal(readKeepalivedServers(root), null)
  write('/etc/keepalived/keepalived.conf', 'vrrp_instance VI_1 {\n  virtual_ipaddress {\n 192.0.2.1\n }\n}\n')
  assert.equal(readKeepalivedServers(root), false)
  write('/etc/keepalived/conf.d/a.conf', '  virtual_server 192.0.2.1 443 {\n}\n')
  assert.equal(readKeepalivedServers(root), true)
})

test('readKubeProxyOrigins finds the switch of k3s in its unit', () => {
  assert.equal(readKubeProxyOrigins(root).isDisabledInK3s, false)
  const unit = (last: string): string => `[Service]\nExecStart=/usr/local/bin/k3s \\\n    server \\\n\t'${last}' \\\n`
  write('/etc/systemd/system/k3s.service', unit('--disable-kube-proxy=false'))
  assert.equal(readKubeProxyOrigins(root).isDisabledInK3s, false)
  write('/etc/systemd/system/k3s.service', unit('--disable-kube-proxy'))
  assert.equal(readKubeProxyOrigins(root).isDisabledInK3s, true)
})

describe('readNetworkd', () => {
  it('lists files that match the device in the order of their names, and what networkd says of it', () => {
    write('/usr/lib/systemd/network/80-all.network', '[Match]\nName=*\n[Network]\nDHCP=yes\n')
    write('/etc/systemd/network/05-x.network', '[Match]\nName=kube-ipvs0\n[Link]\nUnmanaged=yes\n')
    write('/etc/systemd/network/10-eth.network', '[Match]\nName=eth* en*\n')
    write('/sys/class/net/kube-ipvs0/ifindex', '7\n')
    write('/run/systemd/netif/links/7', 'ADMIN_STATE=configured\nOPER_STATE=off\n')
    write(
      '/etc/systemd/networkd.conf.d/x.conf',
      '[Network]\nManageForeignRoutingPolicyRules=no\nManageForeignRoutes=yes\n',
    )
    write('/etc/systemd/networkd.conf.d/y.conf', '[Network]\nManageForeignRoutes=false\n')
    assert.deepEqual(readNetworkd(root), {
      files: [
        { file: '/etc/systemd/network/05-x.network', match: 'Name=kube-ipvs0', isUnmanaged: true },
        { file: '/usr/lib/systemd/network/80-all.network', match: 'Name=*', isUnmanaged: false },
      ],
      loopbackFiles: [{ file: '/usr/lib/systemd/network/80-all.network', match: 'Name=*', isUnmanaged: false }],
      managesForeignRules: false,
      managesForeignRoutes: false,
      deviceState: 'configured',
    })
  })

  it('has the defaults of networkd without files', () => {
    assert.deepEqual(readNetworkd(root), {
      files: [],
      loopbackFiles: [],
      managesForeignRules: true,
      managesForeignRoutes: true,
      deviceState: '',
    })
  })
})

test('files with very many spaces or empty lines are read in time with their length', () => {
  const spaces = ' '.repeat(200_000)
  const lines = '\n'.repeat(200_000)
  write('/etc/NetworkManager/NetworkManager.conf', `${lines}unmanaged-devices=a${spaces}b\n`)
  write('/etc/systemd/networkd.conf', `${lines}ManageForeignRoutes=no\n`)
  write('/etc/sysctl.d/a.conf', `net.ipv4.ip_forward = 1${spaces}2\n`)
  write('/etc/systemd/network/a.network', `[Match]\nName=kube-ipvs0${spaces}b\n`)
  write('/etc/systemd/system/k3s.service', lines)
  write('/etc/keepalived/keepalived.conf', lines)
  const before = process.threadCpuUsage()
  assert.equal(readKubeProxyOrigins(root).isDisabledInK3s, false)
  assert.equal(readKeepalivedServers(root), false)
  assert.equal(readUnmanagedDevices(root).length, 1)
  assert.equal(readNetworkd(root).managesForeignRoutes, false)
  assert.equal(readSysctlLines(root).length, 1)
  const { user, system } = process.threadCpuUsage(before)
  // With the square of the length it takes a minute.
  assert.ok(user + system < 2_000_000, `${user + system} µs`)
})

test('readNetworkFile leaves comments out, and knows no keys that every object has', () => {
  assert.equal(readNetworkFile('[Match]\n#MACAddress=a\n;Type=wlan\nName=kube-ipvs0\n')?.match, 'Name=kube-ipvs0')
  assert.equal(readNetworkFile('[Match]\nconstructor=*\n'), undefined)
})

test('readNetworkFile matches as systemd-networkd does', () => {
  const rows: readonly (readonly [text: string, matches: boolean])[] = [
    ['', false],
    ['[Match]\nName=kube-ipvs0', true],
    ['[Match]\nName=kube-*', true],
    ['[Match]\nName=!eth*', true],
    ['[Match]\nName=!kube-*', false],
    ['[Match]\nKind=dummy', true],
    ['[Match]\nType=ether', true],
    ['[Match]\nType=ether\nName=eth*', false],
    ['[Match]\nMACAddress=00:11:22:33:44:55', false],
    ['[Match]\nType=wlan', false],
    ['[Network]\nDHCP=yes', true],
  ]
  for (const [text, matches] of rows) assert.equal(readNetworkFile(text) !== undefined, matches, text)
})

test('readNetworkFile matches lo by its name and type, and not by keys that lo has no value of', () => {
  const rows: readonly (readonly [text: string, matches: boolean])[] = [
    ['[Match]\nName=lo', true],
    ['[Match]\nName=*', true],
    ['[Match]\nType=loopback', true],
    ['[Match]\nType=ether', false],
    ['[Match]\nKind=dummy', false],
    ['[Match]\nName=kube-*', false],
  ]
  for (const [text, matches] of rows) assert.equal(readNetworkFile(text, LOOPBACK) !== undefined, matches, text)
})

test('globMatches takes time in proportion to the text even for hostile patterns', () => {
  assert.equal(globMatches('*a'.repeat(5000), 'a'.repeat(40)), false)
  assert.equal(globMatches('k?be-*0', 'kube-ipvs0'), true)
  assert.equal(globMatches('', ''), true)
})

test('readKubeProxyOrigins finds static pods, volumes of pods, kubeadm and the switch of k3s', () => {
  assert.deepEqual(readKubeProxyOrigins(root), {
    staticPods: [],
    hasPodVolume: false,
    isKubeadm: false,
    isDisabledInK3s: false,
  })
  write('/etc/kubernetes/manifests/kube-proxy.manifest', 'image: registry.k8s.io/kube-proxy:v1.36.3\n')
  write('/etc/kubernetes/manifests/ours.yaml', 'name: kube-proxy\nimage: example/kube-ipvs:1\n')
  write('/etc/kubernetes/manifests/etcd.yaml', 'image: etcd\n')
  write('/var/lib/kubelet/pods/1234/volumes/kubernetes.io~configmap/kube-proxy/config.conf', 'mode: ipvs\n')
  write('/var/lib/kubelet/kubeadm-flags.env', 'KUBELET_KUBEADM_ARGS=""\n')
  write('/etc/rancher/k3s/config.yaml', 'token: secret\ndisable-kube-proxy: true\n')
  assert.deepEqual(readKubeProxyOrigins(root), {
    staticPods: ['/etc/kubernetes/manifests/kube-proxy.manifest'],
    hasPodVolume: true,
    isKubeadm: true,
    isDisabledInK3s: true,
  })
})

test('readCiliumReplacement reads the state of the agent', () => {
  assert.equal(readCiliumReplacement(root), '')
  write('/var/run/cilium/state/agent-runtime-config.json', '{"KubeProxyReplacement":"true","X":1}')
  assert.equal(readCiliumReplacement(root), 'true')
})

test('hasNetAdmin reads the effective capabilities', () => {
  write('/proc/self/status', 'Name:\tx\nCapEff:\t0000000000001000\n')
  assert.equal(hasNetAdmin(root), true)
  write('/proc/self/status', 'Name:\tx\nCapEff:\t0000000000000fff\n')
  assert.equal(hasNetAdmin(root), false)
})
