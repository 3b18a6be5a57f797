/** For the checks of the start: facts that trigger them, with what they find, and facts that do not. */
import { configured } from '../healthy-node.ts'
import { type Row, UNSEEN } from './row.ts'

export const START_ROWS: readonly Row[] = [
  ['configuration', configured({ error: 'ipvs.scheduler: unknown' }), 'error', /refused: ipvs\.scheduler/],
  ['rights', { netAdmin: false }, 'note', /sudo kube-ipvs doctor/],
  ['running-mode', { runningMode: 'iptables' }, 'warning', /"iptables" mode runs here, and ipvs mode is configured/],
  ['running-mode', { runningMode: null }, 'ok'],
  [
    'start-changes',
    { changes: { value: { count: 2, commands: ['ipvsadm -A -t 10.96.0.1:80 -s rr', 'ip x'] } }, runningMode: null },
    'note',
    /2 changes/,
  ],
  [
    'start-changes',
    { changes: { value: { count: 40, commands: Array.from({ length: 20 }, () => 'ip x') } } },
    'warning',
    /although a proxy runs[^]*and 30 more/,
  ],
  ['start-changes', { changes: UNSEEN }, 'unknown'],
]
