/** `kube-ipvs status` on a real kernel: what it shows of either mode, with and without a daemon. */
import assert from 'node:assert/strict'
import { existsSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Status } from '../../src/cli/node-status.ts'
import { Workbench } from '../support/daemon.ts'
import { service, slice } from '../support/manifests.ts'
import { freshNode, virtualServers } from '../support/kernel-state.ts'
import { sh } from '../support/programs.ts'
import { eventually } from '../support/deadline.ts'

const WEB = service('web', {
  type: 'NodePort',
  clusterIP: '10.96.0.1',
  ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080, nodePort: 30080 }],
})
let bench: Workbench
beforeEach(freshNode)
afterEach(() => bench.close())

function begin(mode: 'ipvs' | 'iptables', more: Readonly<Record<string, unknown>> = {}): void {
  bench = new Workbench({}, { mode, ...more })
  bench.write('web.yaml', WEB, slice('web', ['10.244.0.1', '10.244.0.2']), service('idle', { clusterIP: '10.96.0.2' }))
}

async function status(...flags: string[]): Promise<Status> {
  const { code, stdout, stderr } = await bench.command('status', '--output', 'json', ...flags)
  assert.equal(code, 0, stderr)
  return JSON.parse(stdout) as Status // what our own program prints
}

const text = async (...flags: string[]): Promise<string> => (await bench.command('status', ...flags)).stdout

describe('status', () => {
  it('shows virtual servers, and names them by the manifests', async () => {
    begin('ipvs')
    const daemon = bench.start()
    await eventually(() => assert.equal(virtualServers().filter((line) => line.startsWith('-A')).length, 3))
    await eventually(async () => assert.equal((await status()).proxy.answers, true))
    const found = await status('--manifests', bench.directory)
    assert.deepEqual([found.mode, found.rules], ['ipvs', null])
    assert.deepEqual(
      found.ipvs?.virtualServers.map(({ key, service: name }) => [key, name]),
      [
        ['10.0.2.15:30080/tcp', 'demo/web:http'],
        ['10.96.0.1:80/tcp', 'demo/web:http'],
        ['10.96.0.2:80/tcp', 'demo/idle:http'],
      ],
    )
    await eventually(async () =>
      assert.match(await text('--socket='), /^mode +ipvs, reported by the proxy at 127\.0\.0\.1:10249$/m),
    )
    assert.doesNotMatch(await text('--socket='), /SERVICE/)
    await bench.stop(daemon)
    assert.match(await text(), /^mode +ipvs, according to the kernel; no proxy answers at 127\.0\.0\.1:10249$/m)
    assert.match(await text(), /^This node is not fine: no proxy answers: /)
  })

  it('shows what the running daemon tells: names, drains, problems, conflicts', async () => {
    // Else the address of another Service would be refused, and nothing would be lost to it.
    begin('ipvs', { kubeIPVS: { allowProtectedExternalIPs: true } })
    const greedy = service('greedy', { clusterIP: '10.96.0.3', externalIPs: ['10.96.0.1'] })
    bench.write('greedy.yaml', greedy)
    const daemon = bench.start()
    await eventually(() => assert.ok(existsSync(bench.socket)))
    assert.deepEqual([statSync(bench.socket).mode & 0o777, statSync(bench.socket).isSocket()], [0o600, true])
    await eventually(async () => assert.equal((await status()).ipvs?.virtualServers.length, 4))
    // Rules and addresses may take longer than the socket.
    await eventually(async () => assert.deepEqual((await status()).verdict.reasons, []))
    const found = await status()
    assert.deepEqual([found.verdict.fine, found.verdict.reasons, found.rows?.missing], [true, [], 0])
    assert.deepEqual(
      found.rows?.tables.flatMap(({ table, present }) => (table === 'virtual-servers' ? [present] : [])),
      [4],
    )
    assert.deepEqual(
      found.ipvs?.virtualServers.map(({ key, service: name }) => [key, name]),
      [
        ['10.0.2.15:30080/tcp', 'demo/web:http'],
        ['10.96.0.1:80/tcp', 'demo/web:http'],
        ['10.96.0.2:80/tcp', 'demo/idle:http'],
        ['10.96.0.3:80/tcp', 'demo/greedy:http'],
      ],
    )
    assert.match(
      await text(),
      /^This node is fine: ipvs mode, 3 Services, 4 addresses;.* 1 claim lost to another Service/,
    )
    assert.match(await text('--problems'), /^10\.96\.0\.1:80\/tcp +demo\/web +demo\/greedy$/m)
    const one = await text('demo/idle')
    assert.match(one, /^10\.96\.0\.2:80\/tcp +demo\/idle:http +rr +none: connections are refused$/m)
    assert.doesNotMatch(one, /demo\/web|timeouts/)
    assert.match(await text('--address', '10.244.0.2'), /demo\/web:http/)
    assert.match(await text('demo/nothing'), /^Nothing matches\.$/m)
    const targetRef = { kind: 'Pod', namespace: 'demo', name: 'idle-1' }
    bench.write('idle.yaml', slice('idle', [], { endpoints: [{ addresses: ['10.244.0.7'], targetRef }] }))
    await eventually(async () =>
      assert.deepEqual(
        (await status('--pod', 'demo/idle-1')).ipvs?.virtualServers.map(({ key }) => key),
        ['10.96.0.2:80/tcp'],
      ),
    )
    assert.match(
      (await bench.command('status', '--pod', 'demo/idle-2')).stderr,
      /no EndpointSlice names the pod demo\/idle-2$/m,
    )

    // A daemon that hangs keeps its socket open and answers nobody.
    daemon.kill('SIGSTOP')
    sh('ipvsadm -D -t 10.96.0.2:80')
    const hung = await status()
    assert.deepEqual([hung.verdict.fine, hung.daemonUnknown?.unknown, hung.rows], [false, 'no-answer', null])
    const differs = await bench.command('diff')
    assert.deepEqual([differs.code, differs.stdout.split('\n')[0]], [1, 'ipvsadm -A -t 10.96.0.2:80 -s rr'])
    assert.match(differs.stderr, /^kube-ipvs diff: the daemon at \S+ did not answer in time$/m)
    daemon.kill('SIGCONT')
    await eventually(async () => assert.equal((await status()).rows?.missing, 0))

    const other = await bench.command('status', 'demo', '--output', 'json')
    assert.deepEqual([other.code, other.stdout], [1, ''])
    assert.match(other.stderr, /^kube-ipvs status: "demo" is not the NAMESPACE\/NAME of a Service$/m)
    await bench.stop(daemon)
    assert.equal(existsSync(bench.socket), false)
  })

  it('--watch prints again and again, and ends by a signal; in a terminal it restores the screen', async () => {
    begin('ipvs')
    bench.start()
    await eventually(async () => assert.equal((await status()).daemon?.mode, 'ipvs'))
    const watching = bench.spawnCommand('status', '--watch')
    let shown = ''
    watching.stdout?.on('data', (chunk) => (shown += chunk))
    await eventually(() => assert.ok((shown.match(/^This node is fine/gm) ?? []).length >= 2))
    watching.kill('SIGINT')
    assert.equal(await bench.ended(watching), 0)

    const terminal = bench.inTerminal(24, 10, 'status', '--watch')
    let drawn = ''
    terminal.stdout?.on('data', (chunk) => (drawn += chunk))
    await eventually(() => assert.match(drawn, /lines 1-9 of \d+/))
    terminal.stdin?.write('q')
    assert.equal(await bench.ended(terminal), 0)
    assert.ok(drawn.trimEnd().endsWith('\x1b[?7h\x1b[?25h\x1b[?1049l'), JSON.stringify(drawn.slice(-80)))
  })

  it('goes on without a daemon that is silent or of another version', async () => {
    begin('ipvs')
    const socket = createServer((_, response) => response.setHeader('Server', 'kube-ipvs/9.0.0').end('{"format":99}'))
    await new Promise<void>((resolve) => socket.listen(bench.socket, resolve))
    try {
      const { code, stdout, stderr } = await bench.command('status')
      assert.equal(code, 0)
      assert.match(
        stderr,
        /the daemon is kube-ipvs 9\.0\.0 and answers in format 99, this command is kube-ipvs \S+ and reads/,
      )
      assert.match(stdout, /^kernel /m)
    } finally {
      socket.close()
    }
  })

  it('shows no names when no source knows them', async () => {
    begin('ipvs')
    const { code } = await bench.command('', '--once')
    assert.equal(code, 0)
    const answer = await bench.command('status', '--kubeconfig', bench.kubeconfig('http://127.0.0.1:1'))
    assert.equal(answer.code, 0)
    assert.match(answer.stderr, /^kube-ipvs status: no names of Services: the API server cannot be read: /)
    assert.match(answer.stdout, /^10\.96\.0\.1:80\/tcp +rr /m)
  })

  it('shows what the rules of iptables mode serve, with the names in their comments', async () => {
    begin('iptables')
    bench.start()
    await eventually(async () => assert.equal((await status()).rules?.length, 3))
    const found = await status()
    assert.deepEqual([found.mode, found.device], ['iptables', null])
    assert.deepEqual(found.rules, [
      { service: 'demo/idle:http', key: '10.96.0.2:80/tcp', kind: 'cluster IP', endpoints: [], without: 'refused' },
      {
        service: 'demo/web:http',
        key: '0.0.0.0:30080/tcp',
        kind: 'node port',
        endpoints: ['10.244.0.1:8080', '10.244.0.2:8080'],
      },
      {
        service: 'demo/web:http',
        key: '10.96.0.1:80/tcp',
        kind: 'cluster IP',
        endpoints: ['10.244.0.1:8080', '10.244.0.2:8080'],
      },
    ])
    await eventually(async () => {
      const { daemon, verdict: answer } = await status()
      assert.deepEqual([daemon?.mode, answer.reasons], ['iptables', []])
    })
    const { verdict, rows } = await status()
    assert.deepEqual([verdict.fine, verdict.reasons, rows?.missing], [true, [], 0])
    assert.ok((rows?.present ?? 0) > 10, JSON.stringify(rows))
    let shown = ''
    await eventually(async () => {
      shown = await text('--socket=')
      assert.match(shown, /^mode +iptables, reported by the proxy at /m)
    })
    assert.match(shown, /^10\.96\.0\.1:80\/tcp +demo\/web:http +cluster IP +10\.244\.0\.1:8080$/m)
    assert.doesNotMatch(shown, /kube-ipvs0|VIRTUAL SERVER/)
  })

  it('reports an empty node', async () => {
    begin('ipvs')
    const found = await status()
    assert.deepEqual([found.mode, found.device, found.rules], [null, null, null])
    assert.match(await text(), /^mode +none; no proxy answers at /m)
  })
})
