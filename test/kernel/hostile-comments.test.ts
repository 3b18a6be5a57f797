/**
 * A comment of another program's rule that has line breaks, and looks like the end of a table and
 * the chains of a kubelet: rules are read as they are, so no jump is inserted again, the back end
 * is the one that the node uses, and a cleanup removes what is ours and nothing else.
 */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Workbench } from '../support/daemon.ts'
import { eventually } from '../support/deadline.ts'
import { freshNode, rulesText } from '../support/kernel-state.ts'
import { service, slice } from '../support/manifests.ts'
import { sh } from '../support/programs.ts'
import { needs } from './needs.ts'

const COMMENT = `x
COMMIT
*mangle
:KUBE-IPTABLES-HINT - [0:0]
*nat
:OUTPUT ACCEPT [0:0]
-A OUTPUT -j ACCEPT
say "hi"`
const CHAINS = ['PREROUTING', 'OUTPUT'] as const

for (const [backEnd, other, need] of [
  ['nft', 'legacy', 'iptables-nft'],
  ['legacy', 'nft', 'legacy-iptables'],
] as const)
  for (const mode of ['ipvs', 'iptables'] as const)
    describe(`a hostile comment in ${backEnd}, ${mode} mode`, needs(need), () => {
      let bench: Workbench
      beforeEach(freshNode)
      afterEach(() => bench.close())

      const write = (name: string, address: string): void =>
        bench.write(`${name}.yaml`, service(name, { clusterIP: address }), slice(name, ['10.244.0.1']))
      const nat = (): string => rulesText(`iptables-${backEnd}-save -t nat`)
      /** Jumps of each chain to KUBE-SERVICES. */
      const jumps = (): readonly number[] =>
        CHAINS.map((chain) => nat().match(new RegExp(`^-A ${chain} .*-j KUBE-SERVICES$`, 'gm'))?.length ?? 0)

      it('stands for nothing but itself', async () => {
        sh(`iptables-${backEnd} -t mangle -N KUBE-IPTABLES-HINT`)
        for (const chain of CHAINS) sh(`iptables-${backEnd} -t nat -A ${chain} -m comment --comment '${COMMENT}'`)
        if (other === 'nft') sh(`iptables-${other} -t filter -A INPUT -m comment --comment '${COMMENT}'`)
        bench = new Workbench({}, { mode, iptables: { minSyncPeriod: '0s', syncPeriod: '1s' } })
        write('web', '10.96.0.1')
        const daemon = bench.start()
        await eventually(() => assert.deepEqual(jumps(), [1, 1], bench.log))
        assert.match(bench.log, new RegExp(`backEnd="${backEnd}"`))
        // Each change of rules by others makes the daemon read all of them, and each new Service makes it write.
        for (let round = 2; round < 6; round++) {
          sh(`iptables-${backEnd} -t nat -A INPUT -m comment --comment ${round}`)
          write(`web${round}`, `10.96.0.${round}`)
          await eventually(() =>
            assert.match(mode === 'ipvs' ? sh('ipvsadm -Ln') : nat(), new RegExp(`10\\.96\\.0\\.${round}\\b`)),
          )
          assert.deepEqual(jumps(), [1, 1])
        }
        assert.equal(await bench.stop(daemon), 143)
        assert.deepEqual(jumps(), [1, 1])
        assert.equal((await bench.command('cleanup')).code, 0)
        assert.deepEqual(jumps(), [0, 0])
        assert.equal(nat().match(/^say \\"hi\\""$/gm)?.length, CHAINS.length)
      })
    })
