/**
 * What the image contains, as data: the Debian packages and the files that are taken of each, the
 * files that we write, and the names of each architecture. There is no shell, no package manager
 * and no library that no program of the image loads.
 */
import { NODE_FLAGS } from '../node-flags.ts'

/** Node's names of the architectures. */
export const ARCHITECTURES = ['x64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]

/** Debian's and Docker's name of an architecture. */
export const DEBIAN_NAME: Readonly<Record<Architecture, 'amd64' | 'arm64'>> = { x64: 'amd64', arm64: 'arm64' }

/** @param name Node's, Debian's or Docker's */
export function architectureOf(name: string): Architecture {
  const found = ARCHITECTURES.find((one) => one === name || DEBIAN_NAME[one] === name)
  if (found === undefined) throw new Error(`the image is built for ${ARCHITECTURES.join(' and ')}, not for ${name}`)
  return found
}

/** The release of Debian whose packages are used; dev/image/debian-packages.json pins their versions and digests. */
export const DEBIAN_RELEASE = 'trixie'

/**
 * What an image can start: everything, or without iptables ipvs mode with the nftables firewall only,
 * which starts no program.
 */
export const VARIANTS = ['full', 'without-iptables'] as const
export type Variant = (typeof VARIANTS)[number]

export function variantOf(name: string): Variant {
  const found = VARIANTS.find((one) => one === name)
  if (found === undefined) throw new Error(`an image is ${VARIANTS.join(' or ')}, not ${name}`)
  return found
}

const SHARED_LIBRARY = /\/lib[^/]+\.so\.[\d.]+$/

/**
 * Debian packages, and which of their files the image has besides the copyright. node needs libc6,
 * libgcc-s1 and libstdc++6; the programs of iptables need the others.
 */
export const DEBIAN_PACKAGES: Readonly<Record<string, readonly RegExp[]>> = {
  // Says for scanners what release the packages are of, and has the licences that copyright files refer to.
  'base-files': [/^usr\/lib\/os-release$/, /^etc\/(os-release|debian_version)$/, /^usr\/share\/common-licenses\//],
  // `env -S` starts node with its flags; see `LAUNCHER`.
  coreutils: [/^usr\/bin\/env$/],
  // libgcc-s1 and libstdc++6 have their copyright in it.
  'gcc-14-base': [],
  iptables: [
    /^usr\/sbin\/xtables-(nft|legacy)-multi$/,
    /^usr\/sbin\/ip6?tables-(nft|legacy)(-save|-restore)?$/,
    /\/xtables\/lib(xt|ipt|ip6t)_\w+\.so$/,
  ],
  libc6: [/\/ld-linux-[\w-]+\.so\.\d$/, /\/lib(c|m|dl|pthread)\.so\.\d$/],
  'libgcc-s1': [SHARED_LIBRARY],
  libip4tc2: [SHARED_LIBRARY],
  libip6tc2: [SHARED_LIBRARY],
  libmnl0: [SHARED_LIBRARY],
  'libnetfilter-conntrack3': [SHARED_LIBRARY],
  libnfnetlink0: [SHARED_LIBRARY],
  libnftnl11: [SHARED_LIBRARY],
  'libstdc++6': [SHARED_LIBRARY],
  libxtables12: [SHARED_LIBRARY],
}

/** What an image without iptables does not have: the programs of iptables, and the libraries that only they load. */
const OF_IPTABLES: ReadonlySet<string> = new Set([
  'iptables',
  'libip4tc2',
  'libip6tc2',
  'libmnl0',
  'libnetfilter-conntrack3',
  'libnfnetlink0',
  'libnftnl11',
  'libxtables12',
])

/** The names of the Debian packages of an image. */
export function packagesOf(variant: Variant): readonly string[] {
  return Object.keys(DEBIAN_PACKAGES).filter((name) => variant === 'full' || !OF_IPTABLES.has(name))
}

export const NODE_PATH = 'usr/local/bin/node'
export const PROGRAM_FOLDER = 'usr/lib/kube-ipvs'
export const SBOM_PATH = 'usr/share/sbom/kube-ipvs.spdx.json'
export const LICENCES_FOLDER = 'usr/share/licenses'

/** Where kubeadm's DaemonSet expects the program, and where our chart does. */
export const COMMANDS = ['usr/local/bin/kube-ipvs', 'usr/local/bin/kube-proxy'] as const

/**
 * An executable file that is the program: kubeadm's manifest names one, and an image without a
 * shell has no wrapper scripts. The kernel reads the first line, `env -S` divides it into words,
 * and node runs the rest.
 */
export const LAUNCHER = `#!/usr/bin/env -S /${NODE_PATH} ${NODE_FLAGS.join(' ')}
require('/${PROGRAM_FOLDER}/kube-ipvs.cjs')
`
/**
 * The kernel cuts a longer first line without an error (BINPRM_BUF_SIZE of linux/binfmts.h, with
 * the end of the line).
 */
export const MAX_LAUNCHER_LINE = 255

/** Folders that must exist because something is mounted there or because programs expect them. */
export const FOLDERS = [
  'dev',
  'proc',
  'run',
  'sys',
  'usr/lib/modules',
  'var/lib/kube-proxy',
  'var/lib/kube-ipvs',
] as const
/** World-writable with the sticky bit. */
export const TEMPORARY_FOLDER = 'tmp'

/** Links as a merged /usr has them, and the second name of the program. */
const LINKS: Readonly<Record<string, string>> = {
  bin: 'usr/bin',
  lib: 'usr/lib',
  sbin: 'usr/sbin',
  'var/run': '../run',
  'usr/local/bin/kube-proxy': 'kube-ipvs',
}
/** Those that Debian's alternatives would make. */
const LINKS_OF_IPTABLES: Readonly<Record<string, string>> = Object.fromEntries(
  ['iptables', 'ip6tables'].flatMap((stem) =>
    ['', '-save', '-restore'].map((suffix) => [`usr/sbin/${stem}${suffix}`, 'xtables-nft-multi']),
  ),
)
/** Only x64 has its loader in /lib64. */
const LINKS_OF_ARCHITECTURE: Readonly<Record<Architecture, Readonly<Record<string, string>>>> = {
  x64: { lib64: 'usr/lib64' },
  arm64: {},
}

/** The links of an image by their paths. */
export function linksOf(arch: Architecture, variant: Variant): Readonly<Record<string, string>> {
  return { ...LINKS, ...LINKS_OF_ARCHITECTURE[arch], ...(variant === 'full' ? LINKS_OF_IPTABLES : {}) }
}

/** Text files that we write. */
export const TEXTS: Readonly<Record<string, string>> = {
  'etc/passwd': 'root:x:0:0:root:/:/nonexistent\nnobody:x:65534:65534:nobody:/nonexistent:/nonexistent\n',
  'etc/group': 'root:x:0:\nnogroup:x:65534:\n',
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

/** How a container of the image starts. The Dockerfile repeats it, and a test compares both. */
export const RUN_CONFIGURATION = {
  Entrypoint: [`/${COMMANDS[0]}`],
  Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'],
  User: '0:0',
  WorkingDir: '/',
} as const

/** The environment variable that names the joined layers for tests inside a guest. */
export const IMAGE_VARIABLE = 'KUBE_IPVS_IMAGE_ROOT'

export interface ImageFacts {
  readonly version: string
  /** ISO 8601 */
  readonly created: string
  /** The commit; undefined outside a checkout. */
  readonly revision: string | undefined
  /** URL of the repository; undefined where the build does not know it. */
  readonly source: string | undefined
}

/** Labels as the OCI image specification names them. The Dockerfile repeats them, and a test compares both. */
export function labelsOf({ version, created, revision, source }: ImageFacts): Readonly<Record<string, string>> {
  const labels = {
    title: 'kube-ipvs',
    description: 'A Kubernetes service proxy that reconciles IPVS and iptables over netlink',
    version,
    created,
    revision: revision ?? '',
    source: source ?? '',
    licenses: 'Apache-2.0',
  }
  const known = Object.entries(labels).filter(([, value]) => value !== '')
  return Object.fromEntries(known.map(([name, value]) => [`org.opencontainers.image.${name}`, value]))
}
