/**
 * How an operator gets a kernel module onto this node: the command, the file that loads it at every boot, and the package that has
 * it, for the family of the distribution in os-release(5).
 */

export type Distribution = 'Debian' | 'Ubuntu' | 'RHEL' | 'SUSE'

const DISTRIBUTIONS: readonly Distribution[] = ['Debian', 'Ubuntu', 'RHEL', 'SUSE']

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
}

/** The package with the netfilter modules of a running kernel. RHEL moved some of them to kernel-modules-extra. */
const PACKAGES: Readonly<Record<Distribution, (release: string) => string>> = {
  Debian: (release) => `linux-image-${release}`,
  Ubuntu: (release) => `linux-modules-${release} or linux-modules-extra-${release}`,
  RHEL: (release) => `kernel-modules-core-${release}, kernel-modules-${release} or kernel-modules-extra-${release}`,
  SUSE: () => 'kernel-default (kernel-default-base lacks it)',
}

/** systemd-modules-load(8) reads it. */
export const MODULES_FILE = '/etc/modules-load.d/kube-ipvs.conf'

/** The family of the distribution; all of them when the text names none that is known. @param osRelease text of os-release(5) */
export function distributionsOf(osRelease: string): readonly Distribution[] {
  const valueOf = (key: string): string => new RegExp(`^${key}=["']?([^"'\n]*)`, 'm').exec(osRelease)?.[1] ?? ''
  for (const id of `${valueOf('ID')} ${valueOf('ID_LIKE')}`.toLowerCase().split(/\s+/)) {
    const known = Object.hasOwn(BY_ID, id) ? BY_ID[id] : undefined
    if (known !== undefined) return [known]
  }
  return DISTRIBUTIONS
}

interface Host {
  /** Of the running kernel, as uname -r prints it. */
  readonly release: string
  readonly distributions: readonly Distribution[]
}

/** The packages that have the modules of the running kernel, with their distributions. */
export function packagesWithModules({ release, distributions }: Host): string {
  return distributions.map((name) => `${PACKAGES[name](release)} (${name})`).join('; ')
}

/**
 * One sentence for people.
 * @param module that is missing now
 * @param atBoot every module that the mode needs, for the file
 */
export function moduleRemedy(module: string, atBoot: readonly string[], host: Host): string {
  return (
    `load it with "modprobe ${module}", and at every boot with the file ${MODULES_FILE} that has one of these names a line: ` +
    `${atBoot.join(' ')}; if modprobe does not find it, the package is ${packagesWithModules(host)}`
  )
}
