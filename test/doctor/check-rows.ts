/** For each check: facts that trigger it, with what it finds, and facts that do not. */
import { API_SERVER_ROWS, DAEMON_ROWS } from './rows/daemon.ts'
import { FOREIGN_RULE_ROWS } from './rows/foreign-rules.ts'
import { KERNEL_ROWS } from './rows/kernel.ts'
import { NETWORK_ROWS } from './rows/network.ts'
import { PATHS_ROWS } from './rows/paths.ts'
import { PROXIES_ROWS } from './rows/proxies.ts'
import type { Row } from './rows/row.ts'
import { RULES_ROWS } from './rows/rules.ts'
import { SETTINGS_ROWS } from './rows/settings.ts'
import { START_ROWS } from './rows/start.ts'

export const ROWS: readonly Row[] = [
  ...FOREIGN_RULE_ROWS,
  ...DAEMON_ROWS,
  ...API_SERVER_ROWS,
  ...PROXIES_ROWS,
  ...KERNEL_ROWS,
  ...SETTINGS_ROWS,
  ...NETWORK_ROWS,
  ...RULES_ROWS,
  ...PATHS_ROWS,
  ...START_ROWS,
]
