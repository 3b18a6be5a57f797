/** The help of the commands in package.json, which needs no installed dependencies. */

const kernels = `Kernel with IPVS, the first of these that works: this machine's own (root, in namespaces of its own); the user-mode
Linux that KUBE_IPVS_KERNEL names; the user-mode Linux in this repository (dev/kernel/image), unpacked
into ~/.cache/kube-ipvs (KUBE_IPVS_CACHE moves it); Debian's user-mode-linux; qemu. Missing packages are installed when
you are root; otherwise the command to type is printed. KUBE_IPVS_KERNEL_KIND=host|named|image|uml|qemu uses only that one.`

/** @type {Record<string, string>} */
export const helpFor = {
  demo: `npm start                              shows kube-ipvs at work and follows until Ctrl-C
npm start -- --once                    sends its requests, prints a summary and ends
npm start -- --once --output json      the summary as one JSON object on stdout

Starts the daemon on the manifests in examples/, HTTP servers in network namespaces that stand for pods, sends
requests to a ClusterIP, a NodePort, an external IP and an IPv6 ClusterIP, and shows the virtual-server table with
the requests that each server answered. While it follows, edit a manifest in examples/: the table changes within a
second. Without a terminal it ends by itself. Exit code 1 when a request was not answered.

${kernels}
`,
  test: `npm test                               unit and other tests on this machine, then those on a kernel with IPVS
npm test -- PATTERN...                 only files whose path contains a PATTERN
npm test -- --host-only                only the tests that need no kernel
npm test -- --kernel-only              only the tests in test/kernel
npm test -- --all                      also every scheduler, and all that was recorded of kube-proxy; so does CI=true
npm test -- --new-seed                 property tests with values that no run before had; the first line says how to repeat it

The last line is "N passed, M failed, K skipped"; the needs that tests did not find are listed before it, and before them the
slowest files and the time of the run by the clock and of the processors.
Up to three files that failed run once more, alone. In CI (CI=true) they stay failures, called unsteady where they passed then,
unless test/unsteady.txt names them. Elsewhere the second run counts, but not twice in ten runs for the same file.
Each kernel is measured first, and deadlines and time limits are multiplied by the resulting factor (1 on a fast kernel; at
least KUBE_IPVS_DEADLINE_FACTOR). On a slow kernel no further file begins after nine minutes, unless files are named or with
--all; the last lines list the files that were left out and the command that runs them.
KUBE_IPVS_SKIP_KERNEL=1 skips the kernel tests where there is no kernel (and says so).

${kernels}
`,
  helm: `npm run helm                           builds helm into ~/.cache/kube-ipvs (KUBE_IPVS_CACHE moves it), for the tests of the chart

It does nothing where helm is already there: as KUBE_IPVS_HELM names it, in the cache, or in PATH. It builds with the Go
in PATH if that is new enough, else with Debian's, which it unpacks and removes again; that takes two to three
minutes of processor time and needs 2.5 GB of room in the cache, of which 90 MB remain. The modules come from the Go module proxy (GOPROXY).
Where one of them is not to be had it says so in one line and succeeds; the tests that need helm are then reported as
unmet, and the others judge the recorded renderings.
`,
  bench: `npm run bench                          what kube-ipvs costs, at 100, 1,000 and 10,000 Services with 5 endpoints each
npm run bench -- --services N          other sizes: again or with commas for more; --endpoints M
npm run bench -- --mode MODE           ipvs (default) or iptables; again or with a comma for both
npm run bench -- --firewall iptables,nftables  both firewalls of ipvs mode beside each other
npm run bench -- --virtual-addresses routes  local routes instead of addresses, in the program and in the floor
KUBE_PROXY=PATH npm run bench          also that kube-proxy, beside ours, in both modes, with the ratios
npm run bench -- --repeats N           fresh boots of each program (default 3); medians, with the least and the most
npm run bench -- --changes N           timed changes, at most (default 200), and --idle-seconds N at rest (default 60)
npm run bench -- --output json         one JSON object a line for each size, program and mode
npm run bench -- --handover            connections that are lost while one proxy follows another and while the mode changes; with
                                       KUBE_PROXY=PATH that kube-proxy's state is adopted. Ends with 1 after a loss
npm run bench -- --hostile             how long a change takes beside objects that are made to stall a node

A first look takes two minutes: npm run bench -- --services 100 --repeats 1 --idle-seconds 10. All defaults take about an hour.

It measures a cold start, new connections through one ClusterIP, one change, a burst of 10 % of the Services, and processor time and
memory at rest; beside the times counts that do not depend on the machine: page faults, processes, netlink messages, bytes read from
the API server. In ipvs mode also the floor, the same tables in raw netlink from C (dev/bench/floor.c).

How it is measured: each measurement is a fresh boot of a kernel. Guest, API server, program and bench share one processor of this
machine, the idlest one at the start, so that a wake-up is a context switch and not a message to another core; with root's rights the
guest has priority over other work. Cold start, changes and burst are repeated, the programs taking turns (short cold starts more
often); the rest is measured in the first boot. Processor time and page faults include children that have ended. The calibration
shows what basic operations cost in the guest, and the last lines say whether the machine was too busy for the figures to be compared.
In iptables mode both programs have a minSyncPeriod of 1 s; changes are further apart, so that none of them waits for it.
docs/bench.md says more.

${kernels}
`,
  release: `npm run release                        checks and tests this commit, and writes its release into dist/release
npm run release -- --into DIR          another folder, which is replaced
npm run release -- --dry-run           from any state of the checkout, without tests and without asking nodejs.org
npm run release -- --arch ARCH         x64 or arm64, again for both (default: both)
npm run release -- --source URL        the repository, for labels and provenance (default: that of the hosted workflow)

Writes the image of both architectures as one OCI archive, the chart, an SBOM for each architecture, the OpenVEX document,
the provenance, and SHA256SUMS. It pushes nothing: its last lines say what to push where. SOURCE_DATE_EPOCH replaces the time of the commit.`,
  evidence: `npm run evidence                       measures every part, and writes docs/evidence/NAME.json and docs/evidence/results.md
npm run evidence -- --only NAME        only this part; again for more: supply-chain, kernels, upgrade, fuzz, api-load, soak, chaos, outliers
npm run evidence -- --hours N          for parts that measure as long as they are told to

docs/evidence/README.md says which question each part answers. Exit code 1 when a part has found a problem.
kernels fetches 200 MB from this machine's Debian mirror into the cache, once, and takes 20 minutes on two idle processors.
upgrade boots guests and takes half an hour. It builds kube-proxy of five releases with the Go in PATH (three minutes of
processor time each), from the Go module k8s.io/kubernetes (GOPROXY); they stay in the cache, and those not to be had are named in the result.
fuzz takes half an hour unless it is told otherwise, and writes an input for each find into dist/evidence/fuzz.
api-load takes as long, half of it at rest and half without API server; with root again beside kube-proxy, and all of it at a
kube-apiserver: KUBE_PROXY, KUBE_APISERVER and ETCD name programs, and Go builds those that they do not name (20 minutes).
soak takes two hours, in a guest kernel, and writes every single figure into dist/evidence/soak. A first look: --hours 0.1.
chaos takes about 40 minutes: --hours 0.1 makes its fault of ten minutes one of a minute. It needs a kernel, as the tests do.
outliers takes about 25 minutes: --hours 0.05 makes its ten minutes on a bad network one minute. It needs a kernel, too.`,
  surfaces: `npm run test:surfaces                            every recording in test/recordings/surfaces
npm run test:surfaces -- PATTERN...              only cases whose name contains a PATTERN
npm run test:surfaces -- --cases DIR             the recordings of another folder, which may hold some of them
npm run test:surfaces -- --verbose               also a line for each case that passes

Replays command lines, configuration files and requests that kube-proxy was given, and compares exit codes, messages,
answers and written files. Needs no kernel. Deliberate differences are in test/surfaces/deviations.yaml. The last line is
"N passed, M failed".`,
  packets: `npm run test:packets                          10,000 packets into worlds that differ in their firewall alone
npm run test:packets -- --packets N           so many
npm run test:packets -- --new-seed            scenarios that no run before had; the first line says how to repeat it
npm run test:packets -- --firewall NAME       compares only this firewall with iptables-nft; again for more
npm run test:packets -- --mutants             instead, each rule and each set is missing once, and the oracle has to notice it

Generates configurations and Services, makes a node with each firewall in namespaces of its own, and sends the same packets into
all of them. Who answers or refuses, which source the endpoint sees, marks and conntrack must be equal, but for what
test/packets/differences.yaml lists. Prints a line for each scenario, and last a table.

${kernels}
`,
  oracle: `npm run test:oracle                                 every recorded case in test/recordings/cases on a kernel with IPVS
npm run test:oracle -- PATTERN...                   only cases whose name contains a PATTERN
npm run test:oracle -- --cases DIR                  the cases of another folder
npm run test:oracle -- --compare ipset.txt,...      compares these files instead of those it usually compares
npm run test:oracle -- --output DIR                 writes the state after each step there
npm run test:oracle -- --verbose                    shows the program's log of a case that failed

Feeds the recorded objects to kube-ipvs through an API server on loopback, step by step, and compares the state that it
leaves in the kernel with that of kube-proxy. Deliberate differences are in test/oracle/deviations.yaml. The last line is
"N passed, M failed".

${kernels}
`,
}
