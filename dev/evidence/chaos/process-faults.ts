/** Faults of the process: killed, stopped, without memory, disk or descriptors. */
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from './fault.ts'
import type { ChaosNode } from './node.ts'

const CGROUP = '/sys/fs/cgroup/chaos'
const START_S = 30

export const PROCESS_FAULTS: readonly Fault[] = [
  {
    name: 'SIGKILL, and a start later',
    expectation: {
      text: 'nothing is lost; changes wait for the start',
      change: { from: 'end', withinS: START_S },
      livez: 'silent',
    },
    seconds: 15,
    inject: (node) => node.program?.kill(),
    heal: (node) => node.start(),
  },
  {
    name: 'SIGSTOP',
    expectation: {
      text: 'nothing is lost; changes wait for SIGCONT',
      change: { from: 'end', withinS: 60 },
      livez: 'silent',
    },
    seconds: 'long',
    inject: ({ pid }) => void process.kill(pid, 'SIGSTOP'),
    heal: ({ pid }) => void process.kill(pid, 'SIGCONT'),
  },
  {
    name: 'OOM kill at the limit of its cgroup, and a start later',
    expectation: {
      text: 'nothing is lost; changes wait for the start',
      change: { from: 'end', withinS: START_S },
      livez: 'silent',
    },
    seconds: 15,
    prepare: (node) => {
      node.sh(`echo +memory >/sys/fs/cgroup/cgroup.subtree_control; mkdir ${CGROUP}`)
      node.wrapper = ['sh', '-c', `echo $$ >${CGROUP}/cgroup.procs; exec "$@"`, 'sh']
    },
    async inject(node) {
      // What it has mapped of files can be given back; what it has allocated cannot.
      node.write(`${CGROUP}/memory.max`, `${8 << 20}`)
      for (let left = 300; node.program?.isAlive === true; left--) {
        if (left === 0) throw new Error('the kernel kills nothing')
        await sleep(100)
      }
      const kills = /^oom_kill (\d+)$/m.exec(readFileSync(`${CGROUP}/memory.events`, 'latin1'))?.[1]
      if (kills === undefined || kills === '0')
        throw new Error(`the program ended otherwise:\n${node.program?.logTail}`)
      node.notes.push(`the kernel counts ${kills} OOM kills`)
    },
    heal: (node) => {
      node.write(`${CGROUP}/memory.max`, 'max')
      node.start()
    },
  },
  {
    name: 'full disk, with a start on it',
    expectation: {
      text: 'nothing is lost; the program works, and starts, without its log',
      change: { from: 'fault', withinS: START_S },
      livez: 'any',
    },
    seconds: 20,
    prepare: (node) => {
      const state = join(node.folder, 'state')
      node.sh(`mkdir ${state}; mount -t tmpfs -o size=256k tmpfs ${state}`)
      process.env['TMPDIR'] = state
    },
    async inject(node) {
      node.sh(`cat /dev/zero 2>/dev/null >${node.folder}/state/filler || true; df ${node.folder}/state | grep -q 100%`)
      await node.program?.kill()
      node.start()
    },
    heal: (node) => rmSync(`${node.folder}/state/filler`),
  },
  {
    name: 'no free descriptor',
    expectation: {
      text: 'nothing is lost; changes that need no new process or connection are applied',
      change: { from: 'fault', withinS: 10 },
      livez: 'any',
    },
    seconds: 20,
    inject: (node) => {
      node.notes.push(`${openFiles(node)} descriptors open`)
      node.sh(`prlimit --pid ${node.pid} --nofile=${openFiles(node)}:65536`)
      // Its repair needs a process.
      node.sh('iptables -w -t nat -F KUBE-POSTROUTING')
    },
    heal: (node) => void node.sh(`prlimit --pid ${node.pid} --nofile=65536:65536`),
  },
]

/** The lowest number that no descriptor has. */
function openFiles({ pid }: ChaosNode): number {
  const open = new Set(readdirSync(`/proc/${pid}/fd`).map(Number))
  let free = 0
  while (open.has(free)) free++
  return free
}
