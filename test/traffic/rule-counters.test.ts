import assert from 'node:assert/strict'
import { test } from 'node:test'
import { endpointCounters } from '../../src/traffic/rules-reader.ts'

test('endpointCounters reads the rule that translates to the endpoint, and no other', () => {
  const saved = [
    '*filter',
    '[9:90] -A KUBE-SEP-X -p tcp -m comment --comment "demo/web:http" -m tcp -j DNAT --to-destination 10.244.0.9:1',
    'COMMIT',
    '*nat',
    ':KUBE-SEP-A - [0:0]',
    '[12:720] -A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m comment --comment "demo/web:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-A',
    '[1:60] -A KUBE-SEP-A -s 10.244.0.1/32 -m comment --comment "demo/web:http" -j KUBE-MARK-MASQ',
    '[7:420] -A KUBE-SEP-A -p tcp -m comment --comment "demo/web:http" -m tcp -j DNAT --to-destination 10.244.0.1:8080',
    '[3:180] -A KUBE-SEP-B -p udp -m comment --comment demo/six -m recent --set --name KUBE-SEP-B --rsource -m udp -j DNAT --to-destination [fd00::5]:80',
    '[5:1] -A KUBE-SEP-C -p tcp -m comment --comment "no service" -m tcp -j DNAT --to-destination 10.244.0.7:1',
    '-A KUBE-SEP-D -p tcp -m comment --comment "demo/web:http" -m tcp -j DNAT --to-destination 10.244.0.8:1',
    'COMMIT',
  ].join('\n')
  assert.deepEqual(endpointCounters(saved), [
    { servicePort: 'demo/web:http', protocol: 'tcp', endpoint: '10.244.0.1:8080', connections: 7 },
    { servicePort: 'demo/six', protocol: 'udp', endpoint: '[fd00::5]:80', connections: 3 },
  ])
})
