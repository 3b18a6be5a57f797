/**
 * Who may import whom, and what pure files may not do: the layers of ARCHITECTURE.md as data. A new
 * folder or package needs a line here. Paths are those of the repository with `/`; a folder means
 * everything below it, `folder/*` for the files that lie in it directly.
 */

const PARTS = ['src/conntrack', 'src/events', 'src/ipset', 'src/iptables', 'src/ipvs', 'src/nftables', 'src/watch']
const BELOW_COMPOSITION = [
  'native',
  'src/config',
  'src/metrics',
  'src/netlink',
  'src/node',
  'src/serve',
  'src/service',
  'src/sync',
  'src/values',
]
/** What every mode may import from. */
const SHARED_BY_MODES = [...BELOW_COMPOSITION, ...PARTS, 'src/explain/wanted.ts']
/** What commands may import from. */
const COMMANDS = [
  'src/config',
  'src/daemon',
  'src/doctor',
  'src/explain',
  'src/inspect',
  'src/modes',
  'src/node/deadline.ts',
  // Who listens at the port that a command is about to ask.
  'src/node/listeners.ts',
  'src/serve',
  'src/start',
  'src/traffic',
  'src/values',
]

/**
 * For each folder (or file) the folders its files may import from, beside itself. The longest
 * matching name counts. A folder inside it that has a line is another room, and has to be listed.
 */
export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  'src/values': [],
  'src/service': ['src/values'],
  'src/config': ['src/service/node-addresses.ts', 'src/values'],
  'src/netlink': ['src/values'],
  native: ['src/netlink', 'src/values'],
  'src/node': [
    'src/config/types.ts',
    'src/ipset/catalogue.ts',
    'src/iptables/portions.ts',
    'src/iptables/save-lines.ts',
    'src/netlink',
    'src/service',
    'src/values',
  ],
  'src/metrics': ['src/relay/relay-counts.ts', 'src/service', 'src/sync', 'src/values'],
  'src/relay': ['src/service', 'src/sync/owned-map.ts', 'src/values'],
  'src/serve': ['src/service', 'src/sync/owned-map.ts', 'src/values'],
  // The engine knows tables and sources by interface only.
  'src/sync': ['src/service', 'src/values'],
  // These six never import each other, but that iptables-nft keeps its rules in nf_tables; composition joins them.
  'src/conntrack': ['src/netlink', 'src/service', 'src/values'],
  'src/ipvs': ['src/netlink', 'src/service', 'src/sync', 'src/values'],
  'src/ipset': ['src/netlink', 'src/service', 'src/sync', 'src/values'],
  'src/iptables': ['src/ipset/catalogue.ts', 'src/netlink', 'src/nftables', 'src/service', 'src/sync', 'src/values'],
  'src/nftables': ['src/netlink', 'src/sync', 'src/values'],
  'src/watch': ['src/service', 'src/values'],
  // The rooms of watch: objects are parsed without knowing their source, and manifests know no server.
  'src/watch/source.ts': ['src/service', 'src/values'],
  'src/watch/objects': ['src/service', 'src/values'],
  'src/watch/api': ['src/watch/objects', 'src/values'],
  // Reflecting sees requests and their errors, not encodings, connections or kubeconfigs.
  'src/watch/reflect': [
    'src/watch/api/access.ts',
    'src/watch/api/api-client.ts',
    'src/watch/api/api-error.ts',
    'src/watch/objects',
    'src/watch/source.ts',
    'src/service',
    'src/values',
  ],
  'src/watch/manifests': ['src/watch/objects', 'src/watch/source.ts', 'src/service', 'src/values'],
  'src/events': ['src/watch/api/api-client.ts', 'src/watch/api/api-error.ts', 'src/values'],
  // What the modes share, and a mode: the modes never import each other.
  'src/modes': SHARED_BY_MODES,
  'src/modes/ipvs': [
    ...SHARED_BY_MODES,
    'src/modes/*',
    'src/modes/leftovers/layouts.ts',
    'src/modes/leftovers/other-back-end.ts',
    // Loaded once everything is written: what the firewall that does not run left.
    'src/modes/leftovers/other-firewalls.ts',
  ],
  'src/modes/iptables': [...SHARED_BY_MODES, 'src/modes/*', 'src/modes/leftovers'],
  // The half of the modes that looks: what the kernel has of either, for commands and for the daemon when it is asked.
  'src/modes/look': [
    ...SHARED_BY_MODES,
    'src/explain',
    'src/modes/*',
    'src/modes/ipvs/firewall.ts',
    'src/modes/ipvs/firewalls.ts',
    'src/modes/ipvs/kernel.ts',
    'src/modes/ipvs/nftables-firewall/layout.ts',
    'src/modes/iptables/saved-frontends.ts',
    'src/modes/leftovers/layouts.ts',
    'src/modes/leftovers/nft-leftovers.ts',
    'src/modes/leftovers/other-back-end.ts',
  ],
  // Leftovers know both modes; a mode that starts loads nothing of the other one but names of chains.
  'src/modes/leftovers': [
    ...SHARED_BY_MODES,
    'src/modes/*',
    'src/modes/ipvs',
    'src/modes/look',
    'src/modes/leftovers/layouts.ts',
    'src/modes/leftovers/nft-leftovers.ts',
  ],
  'src/modes/leftovers/layouts.ts': [
    'src/iptables',
    'src/modes/ipvs/iptables-firewall/rules/chain-names.ts',
    'src/modes/iptables/chains/chain-names.ts',
  ],
  // Tables of nftables mode, which is none of ours, and those of our nftables firewall: both modes remove them.
  'src/modes/leftovers/nft-leftovers.ts': ['native', 'src/netlink', 'src/nftables', 'src/values'],
  // What a running daemon tells about itself: the shapes of its answers, and the commands' client.
  'src/inspect': ['src/config/types.ts', 'src/explain/wanted.ts', 'src/service', 'src/values'],
  // Predicts the path of a packet from what the kernel has; composition reads that.
  'src/explain': ['src/ipset', 'src/iptables', 'src/ipvs', 'src/nftables', 'src/service', 'src/values'],
  // What the kernel has counted of Services, in either mode: for commands, and for the daemon when it is asked.
  'src/traffic': [
    'src/config/types.ts',
    'src/conntrack',
    'src/iptables',
    'src/ipvs',
    'src/modes',
    'src/node',
    'src/service',
    'src/values',
  ],
  // The daemon composed.
  'src/daemon': [...SHARED_BY_MODES, 'src/inspect', 'src/modes', 'src/relay', 'src/traffic'],
  // Reads a node as facts, and what is wrong from the facts alone. It begins with what the daemon
  // says, as `status` does, and predicts a few packets, as `explain` does.
  'src/doctor': [
    'native',
    'src/config/types.ts',
    'src/explain',
    'src/inspect',
    'src/iptables',
    'src/ipvs',
    'src/modes',
    'src/netlink',
    'src/nftables',
    'src/node',
    'src/service',
    'src/values',
    'src/watch/api',
  ],
  // The command line, the settings, and the daemon as a command. Nothing of the daemon knows the command line.
  'src/start': ['native/exit-now.ts', 'src/config', 'src/daemon', 'src/serve', 'src/values'],
  // Commands read the command line and print; they compose nothing. Some print rows of plans.
  'src/cli': [...COMMANDS, 'src/cli/explain', 'src/sync/plan.ts'],
  // What `explain` finds out and says: it compares items of tables, as their rooms describe them.
  'src/cli/explain': [
    ...COMMANDS,
    'src/cli/paper.ts',
    'src/cli/terminal.ts',
    'src/ipset',
    'src/iptables',
    'src/ipvs',
    'src/service',
    'src/sync/plan.ts',
  ],
  'src/main.ts': ['src/cli', 'src/start'],
}

/** What src/main.ts loads for a command line: the daemon or the tools. dev/bundle.ts makes a bundle of each. */
export const ENTRIES = { daemon: 'src/start/main.ts', tools: 'src/cli/main.ts' } as const

/**
 * What only commands need. The daemon imports nothing of it but types, so it never loads it: the
 * process that runs as root on every node holds what it needs.
 */
export const TOOLS: readonly string[] = [
  'src/cli',
  'src/daemon/commands.ts',
  'src/daemon/frontend-names.ts',
  'src/doctor',
  'src/explain',
  'src/inspect/daemon-client.ts',
  'src/inspect/names.ts',
  'src/inspect/node-reasons.ts',
  'src/inspect/view.ts',
  'src/modes/leftovers/cleanup.ts',
  'src/modes/look/kernel-state.ts',
  'src/modes/look/live-tables.ts',
  'src/modes/look/packet-reader.ts',
  'src/modes/look/packet-rules.ts',
  'src/modes/look/private-items.ts',
  'src/modes/look/service-tables.ts',
  'src/traffic',
]

/** Lines of the files that the daemon may load, at its start or when it is asked. */
export const MAX_DAEMON_LINES = 58_150

/**
 * The program, its tools and the tests. Each imports from itself and from what precedes it, so that
 * imports go one way.
 */
export const DIRECTION: readonly (readonly string[])[] = [['native', 'src'], ['dev'], ['test']]

/**
 * Packages and powerful parts of Node, and the only places that may import them. A package that is
 * not listed may not be imported.
 */
export const PACKAGE_USERS: Readonly<Record<string, readonly string[]>> = {
  '@kubernetes/client-node': [
    'src/watch/api/kube-config-entries.ts',
    'src/watch/api/kube-config-files.ts',
    'src/watch/api/kube-config-load.ts',
  ],
  koffi: ['native'],
  winston: ['src/serve/log.ts'],
  yaml: ['src/config', 'src/watch/api/kube-config-load.ts', 'src/watch/manifests'],
  zod: ['src/config'],
  // Not a package, but the place of the version.
  'package.json': ['src/values/well-known.ts'],
  'node:child_process': ['src/node'],
  'node:http': ['src/inspect', 'src/serve', 'src/watch/api'],
  'node:https': ['src/serve', 'src/watch/api'],
  'node:http2': ['src/watch/api'],
}

/**
 * Pure files only compute: the same input gives the same output, at any time, on any machine. Every
 * file is pure unless its first comment ends with `@impure`, so a new file is pure until it says
 * otherwise. In these rooms no file may say so.
 */
export const PURE_ROOMS: readonly string[] = [
  'src/doctor/checks',
  'src/explain',
  'src/service',
  'src/watch/objects',
  'src/modes/ipvs/iptables-firewall/rules',
  'src/modes/iptables/chains',
]

/** Rooms that put parts together and need not say that they are impure. */
export const COMPOSITION: readonly string[] = [
  'native',
  'src/cli',
  'src/daemon',
  'src/main.ts',
  'src/modes',
  'src/start',
]

/** What pure files may import of Node; of node:os they need the errno constants, of node:crypto a digest. */
export const PURE_BUILTINS: readonly string[] = ['node:buffer', 'node:crypto', 'node:net', 'node:os', 'node:util']

/** What pure files may not contain, in code (comments and texts do not count). */
export const IMPURE: Readonly<Record<string, RegExp>> = {
  async: /\basync\b/,
  await: /\bawait\b/,
  'the clock': /\bDate\.now\b|\bnew Date\(\s*\)|\bperformance\./,
  process: /\bprocess\./,
  randomness: /\bMath\.random\b|\brandomBytes\b|\brandomUUID\b/,
  timers: /\bset(Timeout|Interval|Immediate)\b/,
}

/** What no file may contain, in code or comments. */
export const FORBIDDEN: Readonly<Record<string, RegExp>> = {
  'the type any': /(:|\bas|<|\|)\s*any\b(?=\s*([;,)=>\]|&[]|$))/m,
  '@ts-ignore': /@ts-(ignore|nocheck|expect-error)/,
  'an enum': /^\s*(export )?(const )?enum\s/m,
}

/** Lines of the longest file. */
export const MAX_LINES = 300

/** A way to print, where it is looked for, and the only files that may use it. */
export interface Printer {
  readonly what: string
  readonly pattern: RegExp
  readonly rooms: readonly string[]
  readonly places: readonly string[]
}

/**
 * Text reaches a terminal in few places, and there everything is escaped that a terminal would
 * interpret: names of objects, rules and interfaces may contain anything. The log quotes its values
 * (src/serve/log-line.ts).
 */
export const PRINTERS: readonly Printer[] = [
  {
    what: 'standard output or standard error',
    pattern: /\bstd(?:out|err)\b/,
    rooms: ['src', 'native'],
    // Those of the programs that it starts.
    places: ['src/start/output.ts', 'src/node/programs.ts'],
  },
  { what: 'the console', pattern: /\bconsole\b/, rooms: ['src', 'native'], places: [] },
  {
    what: 'a descriptor of a file',
    pattern: /\b(?:writeSync|writeFileSync|writevSync|appendFileSync|createWriteStream|WriteStream)\b/,
    rooms: ['src', 'native'],
    // The second writes files: settings of the kernel.
    places: ['src/serve/log-sink.ts', 'src/node/sysctl.ts'],
  },
  {
    what: 'a write to a stream',
    pattern: /\.write\(/,
    rooms: ['src/cli', 'src/main.ts', 'src/start'],
    places: ['src/start/output.ts', 'src/cli/key-screen.ts', 'src/start/early-lines.ts'],
  },
  // It leaves C1 controls and characters that turn the direction of a text as they are.
  {
    what: 'JSON.stringify',
    pattern: /\bJSON\.stringify\b/,
    rooms: ['src/cli', 'src/main.ts', 'src/start'],
    places: [],
  },
]

/**
 * Synchronous calls about files, in the rooms that read files which an operator names: those may be
 * on a network file system, and one that hangs must not stop the event loop. Each place has its
 * reason.
 */
export const SYNCHRONOUS = {
  pattern:
    /\b(?:(?:read|write|append|copy|truncate)File|l?stat|open|close|readv?|exists|access|mkdir|readdir|unlink|rename|readlink|realpath|rm|opendir)Sync\b/,
  rooms: ['src/daemon', 'src/watch', 'src/events', 'src/config', 'src/inspect', 'src/cli', 'src/start'],
  places: [] as readonly string[],
}
