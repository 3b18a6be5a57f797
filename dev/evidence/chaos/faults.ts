/** All faults, in the order of the page. */
import { API_FAULTS } from './api-faults.ts'
import type { Fault } from './fault.ts'
import { KERNEL_FAULTS } from './kernel-faults.ts'
import { NODE_FAULTS } from './node-faults.ts'
import { PROCESS_FAULTS } from './process-faults.ts'

export const FAULTS: readonly Fault[] = [...API_FAULTS, ...NODE_FAULTS, ...KERNEL_FAULTS, ...PROCESS_FAULTS]
