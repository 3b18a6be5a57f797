/** What a problem is about: an object, which its owner can correct, a setting of the kernel, or the node. */
import type { Problem } from '../values/errors.ts'

const OBJECT = /^(?:service|endpointslice|node) |\.(?:ya?ml|json)(?::\d+)?$/i

/** Whether a problem is about an object of the cluster or a file of manifests, and not about this node. */
export function isOfObject({ subject }: Problem): boolean {
  return OBJECT.test(subject)
}

/** Whether a problem is about a setting of the kernel that could not be written: Services still work, less well. */
export function isOfSetting({ subject }: Problem): boolean {
  return subject.startsWith('sysctl')
}
