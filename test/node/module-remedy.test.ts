import assert from 'node:assert/strict'
import { test } from 'node:test'
import { thisHost } from '../../src/node/host.ts'
import { distributionsOf, moduleRemedy } from '../../src/node/module-remedy.ts'

const ALL = ['Debian', 'Ubuntu', 'RHEL', 'SUSE']

for (const [osRelease, expected] of [
  ['PRETTY_NAME="Debian 13"\nID=debian\n', ['Debian']],
  ['ID=ubuntu\nID_LIKE=debian\n', ['Ubuntu']],
  ['ID=linuxmint\nID_LIKE="ubuntu debian"\n', ['Ubuntu']],
  ['ID="rocky"\nID_LIKE="rhel centos fedora"\n', ['RHEL']],
  ['ID=fedora\n', ['RHEL']],
  ["ID='amzn'\nID_LIKE='fedora'\n", ['RHEL']],
  ['ID="sles"\nID_LIKE="suse"\n', ['SUSE']],
  ['ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', ['SUSE']],
  ['ID=flatcar\nVERSION_ID=debian\n', ALL],
  ['ID=constructor\n', ALL],
  ['', ALL],
  ['ID="rocky"\nID_LIKE="rhel centos fedora"\nPLATFORM_ID="platform:el10"\n', ['RHEL 10']],
  ['ID="rhel"\nPLATFORM_ID="platform:el9"\n', ['RHEL']],
  ['NAME="Talos"\nID=talos\n', ['Talos']],
] as const)
  test(`distributionsOf reads ${JSON.stringify(osRelease)}`, () =>
    assert.deepEqual(distributionsOf(osRelease), expected))

// In a Pod only the kernel tells.
for (const [release, expected] of [
  ['6.12.0-124.8.1.el10_1.x86_64', ['RHEL 10']],
  ['6.12.0-55.el10.aarch64', ['RHEL 10']],
  ['5.14.0-503.11.1.el9_5.x86_64', ['RHEL']],
  ['6.12.0-100.28.2.el10uek.x86_64', ALL],
  ['6.18.45-talos', ['Talos']],
  ['6.12.57+deb13-amd64', ALL],
] as const)
  test(`distributionsOf reads the release ${release} of a kernel`, () =>
    assert.deepEqual(distributionsOf('', release), expected))

test('moduleRemedy names the package of RHEL 10, and the machine configuration of Talos', () => {
  const remedy = (module: string, release: string): string =>
    moduleRemedy(module, ['ip_vs', 'ip_vs_lc', 'dummy', 'ip_set'], {
      release,
      distributions: distributionsOf('', release),
    })
  assert.match(
    remedy('ip_set', '6.12.0-124.8.1.el10_1.x86_64'),
    /"modprobe ip_set".* kernel-modules-extra-6\.12\.0-124\.8\.1\.el10_1\.x86_64, .*reboot.* \(RHEL 10\)$/,
  )
  assert.equal(
    remedy('ip_vs', '6.18.45-talos'),
    'name these in machine.kernel.modules of the machine configuration: ip_vs ip_vs_lc xt_ipvs; Talos has no scheduler but rr, wrr, lc, sh and mh',
  )
})

test('moduleRemedy names the command, the file for every boot with its content, and the package of each distribution', () => {
  const remedy = (distributions: ReturnType<typeof distributionsOf>): string =>
    moduleRemedy('ip_vs', ['ip_vs', 'ip_vs_rr'], { release: '6.1.0-1-amd64', distributions })
  assert.equal(
    remedy(['Debian']),
    'load it with "modprobe ip_vs", and at every boot with the file /etc/modules-load.d/kube-ipvs.conf that has one of these names a line: ip_vs ip_vs_rr; if modprobe does not find it, the package is linux-image-6.1.0-1-amd64 (Debian)',
  )
  assert.match(
    remedy(distributionsOf('')),
    / \(Debian\); linux-modules-6.*\(Ubuntu\); kernel-modules.*\(RHEL\); kernel-default /,
  )
})

test('thisHost trusts no os-release in a Pod, where it is that of the image', () =>
  assert.deepEqual(thisHost({ KUBERNETES_SERVICE_HOST: '10.96.0.1' }).distributions, ALL))
