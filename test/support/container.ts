/**
 * Starts a program in the image's root file system as a container runtime does for a Pod on the network of its host: read-only root,
 * only the named capabilities, no new privileges, /proc/sys and /sys read-only, only the named mounts. There is no seccomp filter and no
 * separate process namespace.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { IMAGE_VARIABLE } from '../../dev/image/contents.ts'

/** Numbers of linux/capability.h. */
const CAPABILITY = { NET_ADMIN: 12, NET_RAW: 13 } as const
export type Capability = keyof typeof CAPABILITY

export interface ContainerOptions {
  /** As `command` and `args` of a Pod: an absolute path in the image, and its arguments. */
  readonly command: readonly string[]
  /** Default NET_ADMIN and NET_RAW, as the chart has it. `privileged` keeps everything, and /proc/sys and /sys writable. */
  readonly capabilities?: readonly Capability[] | 'privileged'
  /** Read-only mounts: path in the container (a folder of the image, or anything below /run) to a file or folder of this machine. */
  readonly mounts?: Readonly<Record<string, string>>
  /** The same, writable. */
  readonly writableMounts?: Readonly<Record<string, string>>
  /** Beside the image's own. */
  readonly env?: Readonly<Record<string, string>>
}

/** Mount points below /run are made, as a runtime does. Arguments: the image's root, `ro` or `rw` for the kernel's settings, the mounts. */
const MOUNT = `set -e
image=$1 settings=$2 keep=$3; shift 3
root=$(mktemp -d /run/container-XXXXXX)
mount --bind "$image" $root
mount -t tmpfs tmpfs $root/run
mount -t tmpfs -o mode=1777 tmpfs $root/tmp && mount -o remount,ro $root/tmp
mount -t tmpfs tmpfs $root/dev
for device in null zero random urandom; do : >$root/dev/$device; mount --bind /dev/$device $root/dev/$device; done
mount -t proc proc $root/proc
mount --rbind /sys $root/sys
if [ $settings = ro ]; then
  mount --bind $root/proc/sys $root/proc/sys && mount -o remount,bind,ro $root/proc/sys
  mount -o remount,bind,ro $root/sys
fi
while [ "$1" != -- ]; do
  from=$1 to=$root$2 mode=$3; shift 3
  if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "\${to%/*}"; [ -e "$to" ] || : >"$to"; fi
  mount --bind "$from" "$to"
  mount -o remount,bind,$mode "$to"
done
shift
mount -o remount,ro $root/run
mount -o remount,bind,ro $root
exec perl -e "$DROP" $root "$keep" "$@"`

/**
 * Enters the root, drops all capabilities but the named ones from every set, forbids to gain any, and runs the command. Debian's base
 * system has no program that does it in this order; prctl(2) and capset(2) have other numbers on each architecture.
 */
const DROP = `
my ($root, $keep) = splice @ARGV, 0, 2;
my ($prctl, $capset) = \`uname -m\` eq "x86_64\\n" ? (157, 126) : (167, 91);
chroot $root or die "chroot: $!"; chdir '/';
if ($keep ne 'all') {
  my @keep = split /,/, $keep; my $mask = 0; $mask |= 1 << $_ for @keep;
  for my $capability (0 .. 63) { syscall $prctl, 24, $capability, 0, 0, 0 unless $mask >> $capability & 1 }
  syscall($prctl, 38, 1, 0, 0, 0) == 0 or die "no_new_privs: $!";
  my ($header, $data) = (pack('Ll', 0x20080522, 0), pack 'L6', $mask, $mask, 0, 0, 0, 0);
  syscall($capset, $header, $data) == 0 or die "capset: $!";
}
exec { $ARGV[0] } @ARGV or die "exec $ARGV[0]: $!";`

/** The process is the program itself, so signals reach it. Its standard output and error are pipes. */
export function startContainer(options: ContainerOptions): ChildProcess {
  const { command, capabilities = ['NET_ADMIN', 'NET_RAW'], mounts = {}, writableMounts = {}, env = {} } = options
  const image = process.env[IMAGE_VARIABLE]
  if (image === undefined) throw new Error(`${IMAGE_VARIABLE} names no image: the test needs('image')`)
  const isPrivileged = capabilities === 'privileged'
  const keep = isPrivileged ? 'all' : capabilities.map((name) => CAPABILITY[name]).join(',')
  const args = [
    ...Object.entries(mounts).flatMap(([to, from]) => [from, to, 'ro']),
    ...Object.entries(writableMounts).flatMap(([to, from]) => [from, to, 'rw']),
  ]
  const inside = ['sh', image, isPrivileged ? 'rw' : 'ro', keep, ...args, '--', ...command]
  return spawn('unshare', ['--mount', '--propagation', 'private', '--', 'sh', '-c', MOUNT, ...inside], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', DROP, ...env },
  })
}

/** Runs a container to its end. */
export async function runContainer(
  options: ContainerOptions,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = startContainer(options)
  let output = ''
  const keep = (chunk: unknown): void => {
    output += String(chunk)
  }
  child.stdout?.on('data', keep)
  child.stderr?.on('data', keep)
  const code = await new Promise<number | null>((resolve) => child.once('close', (exit) => resolve(exit)))
  return { code, output }
}
