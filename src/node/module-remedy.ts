/**
 * How an operator gets a kernel module onto this node: the command, the file that loads it at every
 * boot, and the package that has it, for the family of the distribution in os-release(5).
 */
import { ownMember } from '../values/own-member.ts'

export const DISTRIBUTIONS = ['Debian', 'Ubuntu', 'RHEL', 'RHEL 10', 'SUSE', 'Talos'] as const
/** `RHEL 10` and `Talos` need other things than their families; `RHEL` is every other release of it. */
export type Distribution = (typeof DISTRIBUTIONS)[number]

/** What a node may be of which nothing is known. */
const FAMILIES: readonly Distribution[] = ['Debian', 'Ubuntu', 'RHEL', 'SUSE']

/** Values of ID and ID_LIKE. Ubuntu's ID_LIKE is debian, so the first known word counts. */
const BY_ID: Readonly<Record<string, Distribution>> = {
  debian: 'Debian',
  ubuntu: 'Ubuntu',
  rhel: 'RHEL',
  fedora: 'RHEL',
  centos: 'RHEL',
  suse: 'SUSE',
  opensuse: 'SUSE',
  sles: 'SUSE',
  talos: 'Talos',
}

/**
 * The package with the netfilter modules of a running kernel. RHEL moved some of them to
 * kernel-modules-extra, and RHEL 10 all modules of ipset and xtables; none of its cloud images has
 * that package, and a repository has it for the newest kernels only.
 */
const PACKAGES: Readonly<Record<Exclude<Distribution, 'Talos'>, (release: string) => string>> = {
  Debian: (release) => `linux-image-${release}`,
  Ubuntu: (release) => `linux-modules-${release} or linux-modules-extra-${release}`,
  RHEL: (release) => `kernel-modules-core-${release}, kernel-modules-${release} or kernel-modules-extra-${release}`,
  'RHEL 10': (release) =>
    `kernel-modules-extra-${release}, or where that is gone kernel-modules-extra, and a reboot into the kernel that it brings`,
  SUSE: () => 'kernel-default (kernel-default-base lacks it)',
}

/** systemd-modules-load(8) reads it. */
export const MODULES_FILE = '/etc/modules-load.d/kube-ipvs.conf'

/**
 * The distribution, by the running kernel where its name has it, which also tells in a Pod; all
 * families when nothing known is named.
 * @param osRelease text of os-release(5) @param release of the kernel
 */
export function distributionsOf(osRelease: string, release = ''): readonly Distribution[] {
  if (release.endsWith('-talos')) return ['Talos']
  // Not `el10uek`, a kernel of Oracle with packages of its own.
  const [, major] = /\.el(\d+)[._]/.exec(release) ?? []
  if (major !== undefined) return [major === '10' ? 'RHEL 10' : 'RHEL']
  const valueOf = (key: string): string => new RegExp(`^${key}=["']?([^"'\n]*)`, 'm').exec(osRelease)?.[1] ?? ''
  for (const id of `${valueOf('ID')} ${valueOf('ID_LIKE')}`.toLowerCase().split(/\s+/)) {
    const known = ownMember(BY_ID, id)
    if (known !== undefined) return [known === 'RHEL' && valueOf('PLATFORM_ID') === 'platform:el10' ? 'RHEL 10' : known]
  }
  return FAMILIES
}

export interface ModuleHost {
  /** Of the running kernel, as uname -r prints it. */
  readonly release: string
  readonly distributions: readonly Distribution[]
}

/** The packages that have the modules of the running kernel, with their distributions; Talos has none. */
function packagesWithModules({ release, distributions }: ModuleHost): string {
  return distributions.flatMap((name) => (name === 'Talos' ? [] : [`${PACKAGES[name](release)} (${name})`])).join('; ')
}

const isTalos = ({ distributions }: ModuleHost): boolean => distributions.length === 1 && distributions[0] === 'Talos'

/** Talos builds everything else that a proxy needs into its kernel, and has these schedulers of IPVS only. */
const MODULE_OF_TALOS = /^(?:ip_vs|xt_ipvs$)/
const SCHEDULERS_OF_TALOS = 'rr, wrr, lc, sh and mh'

/**
 * One sentence for people.
 * @param module that is missing now
 * @param atBoot every module that the mode needs, for the file
 */
export function moduleRemedy(module: string, atBoot: readonly string[], host: ModuleHost): string {
  if (isTalos(host)) {
    const names = [...new Set([...atBoot, module, 'xt_ipvs'])].filter((name) => MODULE_OF_TALOS.test(name))
    return `name these in machine.kernel.modules of the machine configuration: ${names.join(' ')}; Talos has no scheduler but ${SCHEDULERS_OF_TALOS}`
  }
  return (
    `load it with "modprobe ${module}", and at every boot with the file ${MODULES_FILE} that has one of these names a line: ` +
    `${atBoot.join(' ')}; if modprobe does not find it, the package is ${packagesWithModules(host)}`
  )
}

/**
 * The same as commands, or as lines of a file under a comment that names it.
 * @param modules that are missing now, which are safe in a command
 * @param atBoot as above
 */
export function moduleCommands(
  modules: readonly string[],
  atBoot: readonly string[],
  host: ModuleHost,
): readonly string[] {
  if (isTalos(host)) {
    const names = [...new Set([...atBoot, ...modules])].filter((name) => MODULE_OF_TALOS.test(name))
    return [
      `# machine configuration of Talos, which has no scheduler but ${SCHEDULERS_OF_TALOS}`,
      'machine:',
      '  kernel:',
      '    modules:',
      ...names.map((name) => `      - name: ${name}`),
    ]
  }
  return [
    ...modules.map((name) => `modprobe ${name}`),
    `printf '%s\\n' ${atBoot.join(' ')} > ${MODULES_FILE}`,
    `# if modprobe does not find it, install ${packagesWithModules(host)}`,
  ]
}
