/** Faults of the node: its clock and its address. */
import { makeNode } from '../../api-server/generate.ts'
import { NODE_NAME } from '../../bench/guest-node.ts'
import type { Fault } from './fault.ts'
import type { ChaosNode } from './node.ts'

const DAY_S = 86_400
const AT_ONCE_S = 10

const clock = (name: string, seconds: number): Fault => ({
  name,
  expectation: { text: 'nothing happens', change: { from: 'fault', withinS: AT_ONCE_S } },
  seconds: 20,
  inject: (node) => void node.sh(`date -s @$(($(date +%s) + ${seconds}))`),
  heal: (node) => void node.sh(`date -s @$(($(date +%s) - ${seconds}))`),
})

/** The old address is gone before the new one is there, as when a lease ends. */
function move({ sh, api }: ChaosNode, from: string, to: string): void {
  sh(`ip address delete ${from}/24 dev eth0; ip address add ${to}/24 dev eth0`)
  api.put('nodes', makeNode(NODE_NAME, to))
}

export const NODE_FAULTS: readonly Fault[] = [
  clock('clock a day ahead', DAY_S),
  clock('clock a day behind', -DAY_S),
  {
    name: 'address of the node changed',
    expectation: {
      text: 'nothing is lost at other addresses; node ports follow',
      change: { from: 'fault', withinS: AT_ONCE_S },
      reads: /fine/,
    },
    nodePort: false,
    seconds: 20,
    inject: (node) => move(node, '172.18.0.2', '172.18.0.3'),
    heal: (node) => move(node, '172.18.0.3', '172.18.0.2'),
  },
]
