/** For the checks of other proxies: facts that trigger them, with what they find, and facts that do not. */
import type { NodeFacts } from '../../../src/doctor/facts.ts'
import { CLEAN_RULES, clusterWith, configured, daemonSet, node, running } from '../healthy-node.ts'
import { type Changes, type Row, UNSEEN } from './row.ts'

const LEGACY = { ...CLEAN_RULES, backEnd: 'legacy' } as const

const origins = (changes: Partial<NodeFacts['kubeProxyOrigins']>): Changes => ({
  kubeProxyOrigins: { ...node().kubeProxyOrigins, ...changes },
})

const iptables = (version: string | null, backEnd: 'nft' | 'legacy' | null = 'nft'): Changes => ({
  iptables: { value: { backEnd, reason: 'because', version } },
})

export const PROXIES_ROWS: readonly Row[] = [
  ['kube-proxy-running', running('kube-proxy'), 'error', /process 1000\b.*\n.*undo/],
  [
    'kube-proxy-running',
    { runningMode: 'iptables', isOursRunning: false },
    'error',
    /"iptables" mode that is not kube-ipvs/,
  ],
  ['kube-proxy-running', { runningMode: null, isOursRunning: false }, 'ok'],
  ['kube-proxy-running', { hiddenProcesses: 'hidepid' }, 'unknown'],
  ['kube-proxy-running', { ...running('kube-proxy'), hiddenProcesses: 'hidepid' }, 'error'],
  ['embedded-proxy', running('k3s'), 'warning', /disable-kube-proxy: true/],
  ['embedded-proxy', { ...running('k3s'), ...origins({ isDisabledInK3s: true }) }, 'ok'],
  ['embedded-proxy', { processes: [{ program: 'rke2', pid: 1, switches: ['--disable-kube-proxy'] }] }, 'ok'],
  [
    'embedded-proxy',
    { processes: [{ program: 'k3s', pid: 1, switches: ['agent'] }] },
    'note',
    /^(?![^]*^disable-kube-proxy)[^]*servers decide/m,
  ],
  ['embedded-proxy', running('kubelite'), 'note', /cannot read whether/],
  ['embedded-proxy', running('kube-router'), 'error', /--run-service-proxy=false/],
  [
    'embedded-proxy',
    { processes: [{ program: 'kube-router', pid: 1, switches: ['--run-service-proxy=false'] }] },
    'ok',
  ],
  [
    'kube-proxy-restored',
    origins({ staticPods: ['/etc/kubernetes/manifests/kube-proxy.yaml'] }),
    'error',
    /^mv -- \/etc\/kubernetes\/manifests\/kube-proxy\.yaml \/root\/$/m,
  ],
  [
    'kube-proxy-restored',
    origins({ staticPods: ["/etc/kubernetes/manifests/a 'b'.yaml"] }),
    'error',
    /^# move that file out of \/etc\/kubernetes\/manifests$/m,
  ],
  [
    'kube-proxy-restored',
    { ...origins({ hasPodVolume: true }), isOursRunning: false, runningMode: null },
    'error',
    /volume/,
  ],
  ['kube-proxy-restored', origins({ hasPodVolume: true }), 'ok'],
  ['kube-proxy-restored', origins({ isKubeadm: true }), 'note', /--skip-phases=addon\/kube-proxy/],
  [
    'kube-proxy-restored',
    clusterWith({
      daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3')] },
      kubeProxyMode: { value: 'nftables' },
    }),
    'error',
    /"kube-system\/kube-proxy" of kube-proxy runs on nodes, in "nftables" mode\./,
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3', 0)] } }),
    'note',
    /"kube-system\/kube-proxy" of kube-proxy is there and runs on no node\./,
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3', 2, false)] } }),
    'note',
    /runs on other nodes, not on this one/,
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'registry.k8s.io/kube-proxy:v1.36.3', 2, true)] } }),
    'error',
    /"kube-ipvs\/proxy":"kube-proxy"/,
  ],
  ['kube-proxy-restored', clusterWith({ daemonSets: UNSEEN }), 'unknown'],
  ['kube-proxy-restored', { cluster: UNSEEN }, 'unknown'],
  [
    'kube-proxy-restored',
    { cluster: UNSEEN, ...origins({ staticPods: ['/etc/kubernetes/manifests/a.yaml'] }) },
    'error',
  ],
  [
    'kube-proxy-restored',
    clusterWith({ daemonSets: { value: [daemonSet('kube-proxy', 'example/kube-ipvs:1')] } }),
    'ok',
  ],
  ['both-back-ends', { rules: { value: [CLEAN_RULES, LEGACY] } }, 'error', /iptables-legacy-save \| grep -v KUBE-/],
  [
    'both-back-ends',
    { rules: { value: [CLEAN_RULES, LEGACY] }, ...iptables('1.8.9', 'legacy') },
    'error',
    /iptables-nft-save/,
  ],
  [
    'both-back-ends',
    {
      rules: {
        value: [{ ...CLEAN_RULES, kubeChains: ['mangle KUBE-KUBELET-CANARY', 'filter KUBE-FIREWALL'] }, LEGACY],
      },
    },
    'ok',
  ],
  ['both-back-ends', { rules: UNSEEN }, 'unknown'],
  [
    'other-mode',
    { modesInKernel: { value: ['iptables'] }, rules: { value: [{ ...CLEAN_RULES, serviceChains: 12 }] } },
    'note',
    /Rules of iptables mode are in the kernel, with 12 chains of Services/,
  ],
  ['other-mode', { ...configured({ mode: 'iptables' }), runningMode: null }, 'note', /3 virtual servers/],
  // keepalived and other programs have virtual servers too.
  ['other-mode', { ...configured({ mode: 'iptables' }), runningMode: null, modesInKernel: { value: [] } }, 'ok'],
  ['other-mode', configured({ mode: 'iptables' }), 'ok'],
  ['other-mode', { modesInKernel: UNSEEN }, 'unknown'],
  ['other-mode', { rules: UNSEEN }, 'unknown'],
  ['other-mode', { ...configured({ mode: 'iptables' }), runningMode: null, rules: UNSEEN }, 'note'],
  ['nftables-proxy', { nftProxyTables: { value: ['ip kube-proxy'] } }, 'warning', /nft delete table ip kube-proxy/],
  ['nftables-proxy', { nftProxyTables: { value: ['ip6 kube-proxy'] }, runningMode: 'nftables' }, 'error'],
  ['ipvs-writers', running('keepalived'), 'warning', /excludeCIDRs/],
  ['ipvs-writers', { ...running('keepalived'), keepalivedServers: true }, 'warning', /excludeCIDRs/],
  ['ipvs-writers', { ...running('keepalived'), keepalivedServers: false }, 'ok'],
  ['ipvs-writers', { ...running('keepalived'), ...configured({ excludeCidrs: ['192.0.2.0/24'] }) }, 'ok'],
  ['ipvs-writers', { ...running('loxilb'), ...configured({ mode: 'iptables' }) }, 'ok'],
]
