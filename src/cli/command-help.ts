/** What `--help` says about each command. Scripts depend on the exit codes, which are documented here. */
import type { CommandName } from '../start/commands.ts'

export interface CommandHelp {
  /** One line for the list of commands. */
  readonly summary: string
  readonly usage: readonly string[]
  /** Paragraphs. */
  readonly description: readonly string[]
  /** A titled list that belongs to the description. */
  readonly details?: { readonly title: string; readonly rows: readonly (readonly [term: string, text: string])[] }
  readonly examples: readonly (readonly [command: string, what: string])[]
  readonly exitCodes: readonly (readonly [code: string, meaning: string])[]
}

export const COMMAND_HELP: Readonly<Record<CommandName, CommandHelp>> = {
  run: {
    summary: 'program the Services of this node (the daemon; no command needed)',
    usage: ['kube-ipvs [flags]', 'kube-ipvs COMMAND [flags]'],
    description: [
      'Watches Services and EndpointSlices and programs them into the kernel of this node: as virtual servers of IPVS (ipvs mode) ' +
        'or as iptables rules (iptables mode). Entries that are already right are not changed, so a restart disturbs no connection; ' +
        'changes by other programs are repaired.',
      'It reads the flags and the configuration file of kube-proxy. It needs root, or the capability NET_ADMIN in the network ' +
        'namespace of the host.',
    ],
    examples: [
      ['kube-ipvs --config=/var/lib/kube-proxy/config.conf', 'as kubeadm starts its proxy'],
      ['kube-ipvs --proxy-mode=ipvs --kubeconfig=/etc/kubernetes/kubelet.conf', 'without a configuration file'],
      ['kube-ipvs --manifests ./examples', 'from a folder, without a cluster; edits are applied at once'],
      ['kube-ipvs --manifests ./examples --once -v 2', 'one pass, with a log line for each change'],
    ],
    exitCodes: [
      ['0', 'after --once, --write-config-to, --init-only, --cleanup, --help or --version'],
      ['1', 'wrong flags or configuration, or a failure that only a new process can repair'],
      ['143', 'ended by SIGTERM (130: SIGINT, 129: SIGHUP); the kernel keeps its entries and traffic continues'],
    ],
  },
  status: {
    summary: 'is this node fine; virtual servers, or the addresses that the rules serve, with their Services',
    usage: ['kube-ipvs status [NAMESPACE/NAME...] [flags]'],
    description: [
      'Says first whether this node is fine, and if not, why. Then it shows the mode, the virtual servers of ipvs mode with their ' +
        'Services, real servers, weights and connections, and the addresses that rules of iptables mode serve. It changes nothing.',
      'It asks the running daemon at its local socket for what only that knows: names of Services, health, problems, conflicts, drains, ' +
        'and what the kernel lacks. No daemon has to run: without one it shows what the kernel has, and says what it cannot know. Then ' +
        'the Services are listed where --config, --kubeconfig or --manifests names a source.',
      'Where a terminal is narrow, columns are left out; --output json and output into a file have everything.',
    ],
    examples: [
      ['kube-ipvs status', 'summary and table'],
      ['kube-ipvs status demo/web demo/db', 'only what belongs to these Services'],
      ['kube-ipvs status --address 10.244.1.7', 'only virtual servers with this address or endpoint'],
      ['kube-ipvs status --pod demo/web-7d4b9', 'only what this pod is an endpoint of'],
      ['kube-ipvs status --problems', 'what is wrong with Services, and who claims the same address'],
      ['kube-ipvs status --watch --draining', 'what drains, again every 2 seconds'],
      ['kube-ipvs status --config=/var/lib/kube-proxy/config.conf', 'with the names of Services, without a daemon'],
      ['kube-ipvs status --output json', 'everything for a program'],
    ],
    exitCodes: [
      ['0', 'the state was shown'],
      ['1', 'wrong flags, or the kernel cannot be read'],
    ],
  },
  explain: {
    summary: 'say why traffic of a Service goes where it goes',
    usage: ['kube-ipvs explain TARGET [--from SOURCE] [flags]'],
    description: [
      'Shows every frontend of a Service, every endpoint with the rule that decided whether it is used, who owns an address that ' +
        'several Services claim, and the objects in the kernel that carry it: what is missing or too much is red, with its effect and the ' +
        'commands that repair it. It changes nothing.',
      'With --from it also follows the first packet of a connection from there through this node: each rule, set, virtual server and ' +
        'route that decides about it, the endpoints that it can reach with their shares, and the source address that they see.',
      'It asks the running daemon over its local socket. Without a daemon it computes the same from the source that --config, ' +
        '--kubeconfig or --manifests names, else it shows what the kernel alone has, and says what it then cannot know.',
    ],
    details: {
      title: 'Targets',
      rows: [
        ['NAMESPACE/NAME', 'a Service with all its ports; NAMESPACE/NAME:PORT is one port, by its name or number'],
        ['VIP:PORT', 'the Service that answers there; IPv6 in brackets; /tcp, /udp or /sctp selects a protocol'],
        [':NODEPORT', 'the Service of a node port, at every address of this node'],
      ],
    },
    examples: [
      ['kube-ipvs explain demo/web', 'a Service'],
      ['kube-ipvs explain 10.96.0.10:53/udp', 'what answers at an address and port'],
      ['kube-ipvs explain :30080 --from 203.0.113.9', 'a node port, with the path of a packet from outside'],
      ['kube-ipvs explain demo/web:http --from 10.244.1.7', 'the path from a pod'],
      ['kube-ipvs explain demo/web --from node', 'the path from a process of this node'],
      ['kube-ipvs explain demo/web --output json', 'the same for a program'],
    ],
    exitCodes: [
      ['0', 'explained'],
      ['1', 'wrong flags or target, or something cannot be read'],
      ['2', 'the target is no frontend of a Service'],
    ],
  },
  top: {
    summary: 'show connections, packets and bytes a second by Service or by real server',
    usage: ['kube-ipvs top [NAMESPACE[/NAME]] [flags]'],
    description: [
      "Shows the rates between two reads of the kernel's counters, the connections there are, and totals: of every Service, or of one " +
        'namespace or Service. In a terminal it reads again and again until q is pressed; h lists its keys. It changes nothing.',
      'In ipvs mode the kernel counts all of it. In iptables mode the rules count new connections only, so packets and bytes are ' +
        'unknown, and connections are counted in the list of flows as long as that has at most 50,000.',
      'The names of Services are those of the running daemon; without one, virtual servers are shown by their addresses.',
    ],
    examples: [
      ['kube-ipvs top', 'every Service, live'],
      ['kube-ipvs top demo/web --by real-server', 'the real servers of one Service'],
      ['kube-ipvs top --sort bytes --once --interval 10s', 'one table: the rates of ten seconds'],
      ['kube-ipvs top --once --output json', 'the same for a program'],
    ],
    exitCodes: [
      ['0', 'it was shown, and ended by a key'],
      ['1', 'wrong flags, or the kernel cannot be read'],
      ['130', 'ended by SIGINT (143: SIGTERM, 129: SIGHUP)'],
    ],
  },
  drain: {
    summary: 'show what drains, or wait until no connection to a pod is left',
    usage: ['kube-ipvs drain [flags]', 'kube-ipvs drain --wait NAMESPACE/POD [--timeout 5m] [flags]'],
    description: [
      'Shows the real servers that get no new connections and wait for the end of those they have: how many these are, since when, and ' +
        'how long it may take. In iptables mode nothing drains. It changes nothing and starts no drain: the API decides.',
      'With --wait it ends when no connection to the pod through a Service of this node is left, in either mode. A connection counts until one ' +
        'side has closed it. The running daemon finds the pod and counts; without one, the IPs of the pod must be given instead of its ' +
        "name, in the node's network namespace.",
    ],
    examples: [
      ['kube-ipvs drain', 'what is draining'],
      ['kube-ipvs drain --wait demo/web-0 --timeout 2m', 'until the last connection to the pod has ended'],
      ['kube-ipvs drain --wait 10.244.0.5,fd00:10:244::5 --all', 'by its IPs, with closing connections and UDP'],
    ],
    exitCodes: [
      ['0', 'it was shown, or no connection is left'],
      ['1', 'wrong flags, an unknown pod, or the kernel cannot be read'],
      ['3', 'connections were left at the end of --timeout'],
    ],
  },
  diff: {
    summary: 'show what a pass would change, without changing it',
    usage: ['kube-ipvs diff [flags]'],
    description: [
      'Compares the kernel with what Services and EndpointSlices require, and prints each difference as the command that an ' +
        'operator would type to remove it. It takes the flags of the daemon and its mode. A draining real server is not a difference.',
      'Where the daemon answers at its local socket and does something that explains a difference, that is said on standard error: it ' +
        'waits for lists, a pass has not ended, operations have failed.',
    ],
    examples: [
      ['kube-ipvs diff --config=/var/lib/kube-proxy/config.conf', 'against the cluster'],
      ['kube-ipvs diff --manifests ./examples', 'against a folder of manifests'],
    ],
    exitCodes: [
      ['0', 'nothing differs'],
      ['1', 'something differs'],
      ['2', 'wrong flags, or the kernel or the Services cannot be read'],
    ],
  },
  doctor: {
    summary: 'check this node: is it fine, what is wrong, what would a start change',
    usage: ['kube-ipvs doctor [flags]'],
    description: [
      'Looks at this node and says what is wrong, what that breaks, and how to repair it, with the exact commands. It changes nothing ' +
        'and needs no running proxy; one that runs is asked what it says itself. Where it lacks the rights to see something it says so; as root it sees everything. A question ' +
        'about a missing feature of the kernel may load its module, as a start would.',
      'With --config or --kubeconfig it also asks the API server who else answers for Services, and what a first pass would change. ' +
        'With --bundle it writes what it has collected to a file, which --from analyses on another machine. A bundle has addresses of ' +
        'the node, rules of firewalls and names of DaemonSets and images, but no credentials, environment or command lines.',
      'docs/doctor.md explains each check; the last line of a finding names its section.',
    ],
    details: {
      title: 'What is checked',
      rows: [
        ['the daemon', 'its health and problems, and whether the cluster has a Node of its name'],
        [
          'other proxies',
          'kube-proxy and what starts it again, embedded proxies, leftovers, both back ends of iptables',
        ],
        ['kernel', 'missing modules with their packages, known defects, iptables, the clock'],
        ['settings', 'of ipvs mode, files that undo them, IPv6 forwarding, bridges, the reverse-path filter'],
        ['network', 'MetalLB, kube-vip, Calico, Cilium, NetworkManager, systemd-networkd, the device kube-ipvs0'],
        ['rules', 'firewalls that drop packets of Services, connection tracking, timeouts'],
        ['start', 'the configuration, and what a start would change'],
      ],
    },
    examples: [
      ['kube-ipvs doctor', 'this node, for what its daemon does, or for ipvs mode'],
      [
        'kube-ipvs doctor --config=/var/lib/kube-proxy/config.conf',
        'with the configuration, the cluster and the next pass',
      ],
      ['kube-ipvs doctor --bundle=node7.json.gz', 'also write what was collected'],
      ['kube-ipvs doctor --from=node7.json.gz', 'analyse it elsewhere'],
      ['kube-ipvs doctor --output json', 'the same for a program'],
    ],
    exitCodes: [
      ['0', 'no finding, or only notes'],
      ['1', 'the worst finding is a warning'],
      ['2', 'the worst finding is an error'],
      ['3', 'wrong flags, or a bundle cannot be read or written'],
    ],
  },
  cleanup: {
    summary: 'remove what a proxy of any mode left on this node',
    usage: ['kube-ipvs cleanup [flags]'],
    description: [
      'Removes what kube-ipvs or kube-proxy left, in whichever modes they ran. Stop the proxy first, or it adds everything again. ' +
        'Connections through virtual servers end with them.',
    ],
    details: {
      title: 'What is removed',
      rows: [
        [
          'ipvs mode',
          'virtual servers that its firewall names, the sets and the chains KUBE-* with the jumps into them, the tables named kube-ipvs, and the device kube-ipvs0 with its addresses',
        ],
        ['iptables mode', 'the chains KUBE-* of Services and endpoints, the shared ones, and the jumps into them'],
        ['nftables mode', 'the tables named kube-proxy; the program nft is not needed'],
        [
          'not removed',
          'virtual servers by firewall mark, those that no firewall names, and those inside ipvs.excludeCIDRs of --config; chains of kubelet, and KUBE-FIREWALL; settings of the kernel, counters of nfacct',
        ],
      ],
    },
    examples: [
      ['kube-ipvs cleanup --dry-run', 'print the commands without running them'],
      ['kube-ipvs cleanup', 'run them'],
    ],
    exitCodes: [
      ['0', 'everything is removed, or nothing was found'],
      ['1', 'wrong flags, or something could not be removed'],
    ],
  },
  completion: {
    summary: 'print a script that completes the command line in a shell',
    usage: ['kube-ipvs completion bash|zsh|fish'],
    description: [
      'Prints a script for a shell. The shell that has read it completes commands, flags and values on Tab.',
    ],
    details: {
      title: 'Where the script belongs',
      rows: [
        ['bash', 'source <(kube-ipvs completion bash)  in ~/.bashrc'],
        ['zsh', 'source <(kube-ipvs completion zsh)  in ~/.zshrc, after compinit'],
        ['fish', 'the file ~/.config/fish/completions/kube-ipvs.fish'],
      ],
    },
    examples: [
      ['kube-ipvs completion bash', 'print the script of bash'],
      ['kube-ipvs completion fish', 'print the script of fish'],
    ],
    exitCodes: [
      ['0', 'the script was printed'],
      ['1', 'wrong flags, or another shell'],
    ],
  },
}
