/**
 * Programs of seccomp for x86-64: the default profile of container runtimes (`RuntimeDefault`) for a
 * container without CAP_SYS_ADMIN, and one that reports calls. The profile names what it refuses; a
 * test of system calls that a container may make needs no more.
 */

/** Numbers of asm/unistd_64.h that the profile refuses with EPERM without further capabilities. */
export const REFUSED_CALLS: Readonly<Record<string, number>> = {
  uselib: 134,
  ustat: 136,
  sysfs: 139,
  vhangup: 153,
  pivot_root: 155,
  _sysctl: 156,
  chroot: 161,
  acct: 163,
  settimeofday: 164,
  mount: 165,
  umount2: 166,
  swapon: 167,
  swapoff: 168,
  reboot: 169,
  sethostname: 170,
  setdomainname: 171,
  iopl: 172,
  ioperm: 173,
  create_module: 174,
  init_module: 175,
  delete_module: 176,
  get_kernel_syms: 177,
  query_module: 178,
  quotactl: 179,
  nfsservctl: 180,
  lookup_dcookie: 212,
  clock_settime: 227,
  mbind: 237,
  set_mempolicy: 238,
  get_mempolicy: 239,
  kexec_load: 246,
  add_key: 248,
  request_key: 249,
  keyctl: 250,
  migrate_pages: 256,
  unshare: 272,
  move_pages: 279,
  perf_event_open: 298,
  fanotify_init: 300,
  open_by_handle_at: 304,
  setns: 308,
  kcmp: 312,
  finit_module: 313,
  kexec_file_load: 320,
  bpf: 321,
  userfaultfd: 323,
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  mount_setattr: 442,
  quotactl_fd: 443,
}
const SOCKET = 41
const CLONE = 56
const PERSONALITY = 135
/** The profile answers ENOSYS, so that the C library uses `clone`. */
const CLONE3 = 435
/** CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET of linux/sched.h */
const NEW_NAMESPACES = 0x7e020000
const AF_VSOCK = 40
/** Linux, and the variants that leave out address randomization or show an old release (linux/personality.h). */
const ALLOWED_PERSONALITIES = [0, 0x8, 0x20000, 0x20008, 0xffffffff]

const EPERM = 1
const ENOSYS = 38

// linux/filter.h, linux/seccomp.h
const LOAD = 0x20
const JUMP_EQUAL = 0x15
const JUMP_ANY_BIT = 0x45
const RETURN = 0x06
const RET_ALLOW = 0x7fff0000
const RET_ERRNO = 0x00050000
const RET_USER_NOTIF = 0x7fc00000
const RET_KILL_PROCESS = 0x80000000
/** Offsets in struct seccomp_data: the call, and the low half of its first argument. */
const CALL = 0
const FIRST_ARGUMENT = 16

type Instruction = readonly [operation: number, jumpTrue: number, jumpFalse: number, constant: number]

const load = (offset: number): Instruction => [LOAD, 0, 0, offset]
const answer = (errno: number): Instruction => [RETURN, 0, 0, RET_ERRNO | errno]
const ALLOW: Instruction = [RETURN, 0, 0, RET_ALLOW]

/** Runs `rule` only for this call. The rule ends with a return, and the call's number must be loaded. */
const onCall = (call: number, rule: readonly Instruction[]): Instruction[] => [
  [JUMP_EQUAL, 0, rule.length, call],
  ...rule,
]

/**
 * The program as an array of struct sock_filter.
 * @param tolerated absent: a refused call fails, as in a container. Otherwise the kernel ends a
 * process that makes a refused call
 *   which is not in this list.
 */
export function defaultProfile(tolerated?: readonly string[]): Uint8Array {
  const refusal = (name: string): Instruction =>
    tolerated === undefined || tolerated.includes(name) ? answer(EPERM) : [RETURN, 0, 0, RET_KILL_PROCESS]
  const instructions = [
    load(CALL),
    ...Object.entries(REFUSED_CALLS).flatMap(([name, call]) => onCall(call, [refusal(name)])),
    ...onCall(CLONE3, [answer(ENOSYS)]),
    ...onCall(CLONE, [load(FIRST_ARGUMENT), [JUMP_ANY_BIT, 0, 1, NEW_NAMESPACES], answer(EPERM), ALLOW]),
    ...onCall(SOCKET, [load(FIRST_ARGUMENT), [JUMP_EQUAL, 0, 1, AF_VSOCK], answer(EPERM), ALLOW]),
    ...onCall(PERSONALITY, [
      load(FIRST_ARGUMENT),
      ...ALLOWED_PERSONALITIES.flatMap((one): Instruction[] => [[JUMP_EQUAL, 0, 1, one], ALLOW]),
      answer(EPERM),
    ]),
    ALLOW,
  ]
  return bytesOf(instructions)
}

/** A program that reports these calls to the listener of the filter and allows all others. */
export const reportOf = (calls: readonly number[]): Uint8Array =>
  bytesOf([load(CALL), ...calls.flatMap((call) => onCall(call, [[RETURN, 0, 0, RET_USER_NOTIF]])), ALLOW])

/** struct sock_fprog: unsigned short len; struct sock_filter *filter */
export function programOf(code: Uint8Array, address: bigint): Uint8Array {
  const program = new Uint8Array(16)
  const view = new DataView(program.buffer)
  view.setUint16(0, code.length / 8, true)
  view.setBigUint64(8, address, true)
  return program
}

function bytesOf(instructions: readonly Instruction[]): Uint8Array {
  const bytes = new Uint8Array(8 * instructions.length)
  const view = new DataView(bytes.buffer)
  instructions.forEach(([operation, jumpTrue, jumpFalse, constant], index) => {
    view.setUint16(8 * index, operation, true)
    view.setUint8(8 * index + 2, jumpTrue)
    view.setUint8(8 * index + 3, jumpFalse)
    view.setUint32(8 * index + 4, constant, true)
  })
  return bytes
}
