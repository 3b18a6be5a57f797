/** The help of `npm start`, `npm test` and `npm run bench`, shown without installing anything. */

const kernels = `Kernel with IPVS, the first that is there: this machine's own (root, in namespaces of its own), the user-mode
Linux that KUBE_IPVS_KERNEL names, Debian's user-mode-linux, qemu. Missing packages are installed when you are root;
else you are told what to type. KUBE_IPVS_KERNEL_KIND=host|named|uml|qemu takes just that one.`

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
  test: `npm test                               all tests: on this machine, then on a kernel with IPVS
npm test -- PATTERN...                 only files whose path contains a PATTERN
npm test -- --host-only                only the tests that need no kernel
npm test -- --kernel-only              only the tests in test/kernel

The last line is "N passed, M failed, K skipped"; what tests needed and did not find is listed before it.
KUBE_IPVS_SKIP_KERNEL=1 leaves the kernel tests out where no kernel can be had (and says so).

${kernels}
`,
  bench: `npm run bench                          100, 1,000 and 10,000 Services with 5 endpoints each, as a table
npm run bench -- --services N          one size (again for more); --endpoints M
npm run bench -- --output json         one JSON object a line for each size
npm run bench -- --proxy 'COMMAND'     another proxy on the same API server and kernel; {kubeconfig} and {config} in
                                       COMMAND stand for the paths it needs
npm run bench -- --hostile             how long a change takes beside objects that are meant to stall a node
npm run bench -- --slope               also how memory grows over 10,000 changes
npm run bench -- --changes N, --idle-seconds N, --node-flags 'FLAGS', --profile DIR

Cold start, one change, a burst of 10 % of the Services, idle processor time and memory, with the counts of netlink
messages and processes, beside the floor of raw netlink (../shared/tools/bench/floor.c and gcc). Each measurement is a
fresh boot. On user-mode Linux the program has one CPU to itself and everything else the other one.

${kernels}
`,
  surfaces: `npm run test:surfaces                            every recording in ../shared/oracle/surfaces
npm run test:surfaces -- PATTERN...              only cases whose name contains a PATTERN
npm run test:surfaces -- --cases DIR             the recordings of another folder of the same layout
npm run test:surfaces -- --verbose               a line for each case that passes too

Replays command lines, configuration files and requests that kube-proxy was given, and compares exit codes, messages,
answers and written files. Needs no kernel. Deliberate differences are in test/surfaces/deviations.yaml. The last line is
"N passed, M failed".`,
  oracle: `npm run test:oracle                                 every recorded case in ../shared/oracle/cases on a kernel with IPVS
npm run test:oracle -- PATTERN...                   only cases whose name contains a PATTERN
npm run test:oracle -- --cases DIR                  the cases of another folder
npm run test:oracle -- --compare ipset.txt,...      compares these files instead of those it usually compares
npm run test:oracle -- --output DIR                 writes what was left after each step there
npm run test:oracle -- --verbose                    shows the program's log of a case that failed

Feeds the recorded objects to kube-ipvs through an API server on loopback, step by step, and compares what it leaves in
the kernel with what kube-proxy left. Deliberate differences are in test/oracle/deviations.yaml. The last line is
"N passed, M failed".

${kernels}
`,
}
