/**
 * What doctor reads of files: processes, settings, and the configuration of daemons. Every file is
 * read up to a bound, and only the few values that checks need are kept.
 * @impure
 */
import { closeSync, constants, openSync, readdirSync, readlinkSync, readSync } from 'node:fs'
import { hiddenReason } from '../node/other-proxies.ts'
import { SERVICE_DEVICE } from '../values/well-known.ts'
import {
  AGENT,
  type NetworkFile,
  type NodeFacts,
  type ProcessFact,
  type Program,
  type SysctlLine,
  WATCHED_SETTINGS,
} from './facts.ts'
import { unseen } from './seen.ts'
import { isTrue, LIST_BREAK, LOOPBACK, readNetworkFile, readSysctlFile, settingOf } from './network-file.ts'
import { ownMember } from '../values/own-member.ts'

const MAX_FILE_BYTES = 256 * 1024
/** Most files of one folder. */
const MAX_FILES = 1000

/** The text of a file up to a bound; undefined when it cannot be read. A FIFO in place of a file does not block. */
export function readText(path: string, maxBytes = MAX_FILE_BYTES): string | undefined {
  let fd: number | undefined
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
    const chunks: Buffer[] = []
    let total = 0
    while (total < maxBytes) {
      const chunk = Buffer.alloc(Math.min(65_536, maxBytes - total))
      const length = readSync(fd, chunk)
      if (length === 0) break
      chunks.push(chunk.subarray(0, length))
      total += length
    }
    return Buffer.concat(chunks).toString('utf8')
  } catch {
    return undefined
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

/** The names in a folder, sorted; none when it cannot be read. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted().slice(0, MAX_FILES)
  } catch {
    return []
  }
}

/** Names of processes as the kernel has them, cut to 15 bytes. */
const BY_COMMAND: Readonly<Record<string, Program>> = {
  'kube-proxy': 'kube-proxy',
  kubelet: 'kubelet',
  k3s: 'k3s',
  'k3s-server': 'k3s',
  'k3s-agent': 'k3s',
  rke2: 'rke2',
  kubelite: 'kubelite',
  'kube-router': 'kube-router',
  keepalived: 'keepalived',
  loxilb: 'loxilb',
  speaker: 'speaker',
  'kube-vip': 'kube-vip',
  'calico-node': 'calico-node',
  'cilium-agent': 'cilium-agent',
  NetworkManager: 'NetworkManager',
  'systemd-network': 'systemd-networkd',
  bird: 'bird',
  bird6: 'bird',
  zebra: 'zebra',
  gobgpd: 'gobgpd',
  firewalld: 'firewalld',
}

/** Arguments of command lines that a check needs. All others may be secrets. */
const SWITCHES = new Set(['--run-service-proxy=false', '--disable-kube-proxy', '--disable-kube-proxy=true'])
const MAX_PROCESSES = 200

/** Programs that run only on the host itself: where they are visible, so are those that matter. */
const AGENTS: ReadonlySet<Program> = new Set(['kubelet', 'k3s', 'rke2', 'kubelite'])

/**
 * The programs of interest in the network namespace of this process. A pod with a namespace of its
 * own can name its processes as it likes, so those do not count.
 * @param root put before each path, for tests
 */
export async function readProcesses(root = ''): Promise<Pick<NodeFacts, 'processes' | 'hiddenProcesses'>> {
  const own = linkOf(`${root}/proc/self/ns/net`)
  const processes: ProcessFact[] = []
  for (const name of processIds(root)) {
    const directory = `${root}/proc/${name}`
    const command = readText(`${directory}/comm`, 64)?.trim() ?? ''
    const program = ownMember(BY_COMMAND, command)
    if (program === undefined || processes.length >= MAX_PROCESSES) continue
    const network = linkOf(`${directory}/ns/net`)
    if (own !== undefined && network !== undefined && network !== own) continue
    // The image of kube-ipvs answers to this name; its process is Node.
    if (program === 'kube-proxy' && linkOf(`${directory}/exe`)?.endsWith('/node') === true) continue
    const words = (readText(`${directory}/cmdline`, 65_536) ?? '').split('\0')
    const switches = new Set(words.filter((word) => SWITCHES.has(word)))
    // k3s hides its arguments behind one word, `/usr/local/bin/k3s agent`.
    if (command === 'k3s-agent' || words[1] === AGENT || words[0]?.endsWith(` ${AGENT}`) === true) switches.add(AGENT)
    processes.push({ program, pid: Number(name), switches: [...switches] })
  }
  const hidden = hiddenReason(`${root}/proc`)
  const isHost = hidden === undefined || processes.some(({ program }) => AGENTS.has(program))
  return { processes, hiddenProcesses: isHost ? null : hidden }
}

function processIds(root: string): readonly string[] {
  try {
    return readdirSync(`${root}/proc`).filter((name) => /^\d+$/.test(name))
  } catch {
    return []
  }
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

/** The settings of WATCHED_SETTINGS that the kernel has. */
export function readSettings(root = ''): Readonly<Record<string, number>> {
  const values = WATCHED_SETTINGS.flatMap((name): [string, number][] => {
    const value = readNumber(`${root}/proc/sys/${name}`)
    return value === undefined ? [] : [[name, value]]
  })
  return Object.fromEntries(values)
}

export function readNumber(path: string): number | undefined {
  const written = readText(path, 64)?.trim()
  return written !== undefined && /^-?\d+$/.test(written) ? Number(written) : undefined
}

/** Files of several folders by name; of files with one name the first folder's counts, as systemd does it. */
function layered(folders: readonly string[], suffix: string): readonly string[] {
  const byName = new Map<string, string>()
  for (const folder of folders)
    for (const name of namesIn(folder))
      if (name.endsWith(suffix) && !byName.has(name)) byName.set(name, `${folder}/${name}`)
  return [...byName].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, path]) => path)
}

const WATCHED: ReadonlySet<string> = new Set(WATCHED_SETTINGS)

/** Lines for watched settings in the order in which `sysctl --system` applies them. */
export function readSysctlLines(root = ''): readonly SysctlLine[] {
  const folders = ['/etc', '/run', '/usr/local/lib', '/usr/lib', '/lib'].map((folder) => `${root}${folder}/sysctl.d`)
  const files = [...layered(folders, '.conf'), `${root}/etc/sysctl.conf`]
  return files
    .flatMap((path) =>
      readSysctlFile(readText(path) ?? '').flatMap(([name, value]) =>
        WATCHED.has(name) ? [{ file: path.slice(root.length), name, value }] : [],
      ),
    )
    .slice(-200)
}

/**
 * The value of unmanaged-devices of NetworkManager as the parts that files gave it: `=` replaces
 * what earlier files said, `+=` adds to it, `-=` takes from it (NetworkManager.conf(5)).
 */
export function readUnmanagedDevices(root = ''): readonly string[] {
  const folders = ['/etc', '/run', '/usr/lib'].map((folder) => `${root}${folder}/NetworkManager/conf.d`)
  const parts = layered(folders, '.conf')
  const isOfEtc = (path: string): boolean => path.startsWith(`${root}/etc/`)
  const main = `${root}/etc/NetworkManager/NetworkManager.conf`
  let values: readonly string[] = []
  for (const path of [...parts.filter((part) => !isOfEtc(part)), main, ...parts.filter(isOfEtc)])
    for (const line of (readText(path) ?? '').split('\n')) {
      const [key, value] = settingOf(line)
      const operator = /^unmanaged-devices[ \t]*([+-]?)$/.exec(key)?.[1]
      if (operator === '') values = [value]
      else if (operator === '+') values = [...values, value].slice(-50)
      else if (operator === '-') values = values.map((earlier) => without(earlier, value))
    }
  return values
}

function without(value: string, taken: string): string {
  const gone = new Set(taken.split(LIST_BREAK))
  return value
    .split(LIST_BREAK)
    .filter((one) => !gone.has(one))
    .join(';')
}

export function readNetworkd(root = ''): NodeFacts['networkd'] {
  const roots = ['/etc', '/run', '/usr/local/lib', '/usr/lib', '/lib']
  const texts = layered(
    roots.map((folder) => `${root}${folder}/systemd/network`),
    '.network',
  ).map((path) => ({ file: path.slice(root.length), text: readText(path) }))
  const matching = (device?: typeof LOOPBACK): NetworkFile[] =>
    texts
      .flatMap(({ file, text }): NetworkFile[] => {
        const read = text === undefined ? undefined : readNetworkFile(text, device)
        return read === undefined ? [] : [{ file, ...read }]
      })
      .slice(0, 50)
  const settings = [
    `${root}/etc/systemd/networkd.conf`,
    ...layered(
      roots.map((folder) => `${root}${folder}/systemd/networkd.conf.d`),
      '.conf',
    ),
  ].map((path) => readText(path) ?? '')
  /** The last line decides. */
  const isSet = (name: string): boolean => {
    const last = settings
      .flatMap((text) => text.split('\n'))
      .map(settingOf)
      .findLast(([key]) => key === name)
    return isTrue(last?.[1].split(/\s/, 1)[0] ?? 'yes')
  }
  const index = readNumber(`${root}/sys/class/net/${SERVICE_DEVICE}/ifindex`)
  const state = index === undefined ? '' : (readText(`${root}/run/systemd/netif/links/${index}`) ?? '')
  return {
    files: matching(),
    loopbackFiles: matching(LOOPBACK),
    managesForeignRules: isSet('ManageForeignRoutingPolicyRules'),
    managesForeignRoutes: isSet('ManageForeignRoutes'),
    deviceState: /^ADMIN_STATE=([\w-]{1,60})$/m.exec(state)?.[1] ?? '',
  }
}

/** Signs on this node that kube-proxy is started again. */
export function readKubeProxyOrigins(root = ''): NodeFacts['kubeProxyOrigins'] {
  const manifests = `${root}/etc/kubernetes/manifests`
  const staticPods = namesIn(manifests).filter((name) => {
    const text = readText(`${manifests}/${name}`) ?? ''
    return text.includes('kube-proxy') && !text.includes('kube-ipvs')
  })
  const pods = `${root}/var/lib/kubelet/pods`
  const k3s = ['k3s', 'rke2'].flatMap((name) => [
    `${root}/etc/rancher/${name}/config.yaml`,
    ...layered([`${root}/etc/rancher/${name}/config.yaml.d`], '.yaml'),
  ])
  return {
    staticPods: staticPods.slice(0, 20).map((name) => `/etc/kubernetes/manifests/${name}`),
    hasPodVolume: namesIn(pods).some((pod) =>
      namesIn(`${pods}/${pod}/volumes/kubernetes.io~configmap`).includes('kube-proxy'),
    ),
    isKubeadm: readText(`${root}/var/lib/kubelet/kubeadm-flags.env`, 1) !== undefined,
    isDisabledInK3s:
      k3s.some((path) => /^disable-kube-proxy:\s*["']?true/m.test(readText(path) ?? '')) ||
      unitsOf(root).some((path) => /^[^#;\n]*--disable-kube-proxy(?!=false)/m.test(readText(path) ?? '')),
  }
}

/** The units of servers of k3s and RKE2, where their installers write the command line. */
function unitsOf(root: string): readonly string[] {
  return ['k3s', 'rke2-server'].flatMap((name) => [
    `${root}/etc/systemd/system/${name}.service`,
    ...layered([`${root}/etc/systemd/system/${name}.service.d`], '.conf'),
  ])
}

/** Whether files of keepalived have virtual servers; it may only move an address (VRRP). null: none can be read. */
export function readKeepalivedServers(root = ''): boolean | null {
  const main = `${root}/etc/keepalived`
  const paths = [main, `${main}/conf.d`].flatMap((folder) => layered([folder], '.conf'))
  const texts = paths.flatMap((path) => readText(path) ?? [])
  return texts.length === 0 ? null : texts.some((text) => /^[ \t]*(virtual_server|include)\b/m.test(text))
}

/** `KubeProxyReplacement` of the agent of Cilium on this node; '' when it says nothing. */
export function readCiliumReplacement(root = ''): string {
  const text = readText(`${root}/var/run/cilium/state/agent-runtime-config.json`) ?? ''
  return /"KubeProxyReplacement"\s*:\s*"?(\w{1,20})/.exec(text)?.[1] ?? ''
}

const CAP_NET_ADMIN = 12n

export function hasNetAdmin(root = ''): boolean {
  const set = /^CapEff:\s*([0-9a-f]+)$/m.exec(readText(`${root}/proc/self/status`) ?? '')?.[1]
  return set !== undefined && ((BigInt(`0x${set}`) >> CAP_NET_ADMIN) & 1n) === 1n
}

export function readConntrack(root = ''): NodeFacts['conntrack'] {
  const count = readNumber(`${root}/proc/sys/net/netfilter/nf_conntrack_count`)
  const max = readNumber(`${root}/proc/sys/net/netfilter/nf_conntrack_max`)
  return count === undefined || max === undefined
    ? unseen('connection tracking is not loaded')
    : { value: { count, max } }
}
