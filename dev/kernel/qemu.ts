/**
 * A guest in qemu with Debian's stock kernel and this machine's root folder over 9p. The last
 * resort: slow without KVM. The guest finds its three channels, virtio serial ports, by name.
 */
import { accessSync, constants, readFileSync } from 'node:fs'
import type { QemuKernel } from './choice.ts'
import { type Guest, guestProcessors, type KernelCommand, onProcessor } from './guest.ts'

const MEMORY_MIB = 2048

export function qemuGuest(
  choice: QemuKernel,
  {
    liveFolders = [],
    kernelParameters = [],
    processor,
  }: Pick<KernelCommand, 'liveFolders' | 'kernelParameters' | 'processor'>,
): Guest {
  const port = (name: string, descriptor: number): string[] => [
    '-chardev',
    `socket,id=${name},fd=${descriptor}`,
    '-device',
    `virtserialport,chardev=${name},name=${name}`,
  ]
  return {
    settings: {
      channels: { stdout: 'virtio:stdout', stderr: 'virtio:stderr', control: 'virtio:control' },
      modules: choice.modules,
      liveFolders,
    },
    bootTimeoutMs: 300_000,
    command: (folder) => ({
      argv: [
        ...onProcessor(processor),
        ...`qemu-system-x86_64 -machine q35 ${acceleration()} -cpu max -smp ${guestProcessors(processor)} -m ${MEMORY_MIB}`.split(
          ' ',
        ),
        ...'-nodefaults -display none -no-reboot -serial stdio -nic none'.split(' '),
        '-kernel',
        choice.kernel,
        '-initrd',
        choice.initialRamdisk,
        '-append',
        `console=ttyS0 quiet panic=-1 mitigations=off ${kernelParameters.join(' ')} guest=${folder}`,
        ...'-fsdev local,id=root,path=/,security_model=none,multidevs=remap'.split(' '),
        ...'-device virtio-9p-pci,fsdev=root,mount_tag=hostroot -device virtio-serial-pci'.split(' '),
        ...port('stdout', 3),
        ...port('stderr', 4),
        ...port('control', 5),
      ],
      env: process.env,
    }),
  }
}

/**
 * KVM where this user may use it, else emulation. On some virtual machines /dev/kvm exists and does
 * not work: the processor must have the feature as well.
 */
function acceleration(): string {
  const emulation = '-accel tcg,thread=multi'
  try {
    accessSync('/dev/kvm', constants.R_OK | constants.W_OK)
    return /\b(vmx|svm)\b/.test(readFileSync('/proc/cpuinfo', 'utf8')) ? '-accel kvm -accel tcg' : emulation
  } catch {
    return emulation
  }
}
