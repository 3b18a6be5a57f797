/** Rows of the table in flags.ts: the flags of the commands `top` and `drain`. */

const TOP = ['top'] as const
const DRAIN = ['drain'] as const

export const TRAFFIC_FLAGS = {
  by: {
    name: 'by',
    kind: 'text',
    commands: TOP,
    own: true,
    group: 'first',
    value: 'WHAT',
    words: ['service', 'real-server'],
    help: 'What a row is.',
    default: 'service',
  },
  sort: {
    name: 'sort',
    kind: 'text',
    commands: TOP,
    own: true,
    group: 'first',
    value: 'COLUMN',
    words: ['connections', 'packets', 'bytes', 'active', 'name'],
    help: 'The column that sorts: connections, packets, bytes, active or name.',
    default: 'connections',
  },
  interval: {
    name: 'interval',
    kind: 'duration',
    commands: TOP,
    own: true,
    group: 'first',
    help: 'Time between two reads of the counters, at least 100ms.',
    default: '1s',
  },
  wait: {
    name: 'wait',
    kind: 'text',
    commands: DRAIN,
    own: true,
    group: 'first',
    value: 'POD',
    help: 'Wait until no connection to this pod is left: NAMESPACE/NAME, or its IPs.',
  },
  timeout: {
    name: 'timeout',
    kind: 'duration',
    commands: DRAIN,
    own: true,
    group: 'first',
    help: 'Longest time to wait, at most 24h; 0s counts once.',
    default: '5m',
  },
  all: {
    name: 'all',
    kind: 'boolean',
    commands: DRAIN,
    own: true,
    group: 'first',
    help: 'Wait also for connections that are closing, and for flows of UDP.',
  },
} as const
