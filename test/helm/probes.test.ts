/**
 * When a kubelet probes a daemon of the chart: not before a normal start is over, soon after it,
 * and long enough to kill none too early.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { valueAt } from '../../src/config/values.ts'
import { goldenText, objectsIn, VALUES } from './renderings.ts'

interface Probe {
  readonly initialDelaySeconds?: number
  readonly periodSeconds?: number
  readonly failureThreshold?: number
}

const KINDS = ['startupProbe', 'livenessProbe', 'readinessProbe'] as const
type Probes = Readonly<Partial<Record<(typeof KINDS)[number], Probe>>>

/** Seconds after the start of the container. */
interface Outcome {
  /** Each failed probe is a Warning Event. */
  readonly failed: number
  readonly readyAt: number
  readonly killedAt: number
}

/**
 * What a kubelet sees in a container that answers from a time on. It counts the initial delay from
 * the second in which the container started, without its fraction; its ticks have any phase.
 * Liveness and readiness wait for the startup probe, and readiness is asked at once when a
 * container has started, and then at its ticks (pkg/kubelet/prober of Kubernetes 1.36).
 * @param fraction when in its second the container started
 * @param phase of the ticks, as a part of their period
 */
function probed(probes: Probes, answersFrom: number, fraction: number, phase: number): Outcome {
  let failed = 0
  let startedAt = 0
  /** When a probe has its answer, and when the kubelet gives up; both Infinity where it does not happen in 1,000 s. */
  const ask = (probe: Probe, times: readonly number[]): { readonly answered: number; readonly givenUp: number } => {
    const { initialDelaySeconds = 0, failureThreshold = 3 } = probe
    let failures = 0
    for (const time of times) {
      if (time < startedAt || Math.floor(time + fraction) < initialDelaySeconds) continue
      if (time >= answersFrom) return { answered: time, givenUp: Infinity }
      failures++
      failed++
      if (failures === failureThreshold) return { answered: Infinity, givenUp: time }
    }
    return { answered: Infinity, givenUp: Infinity }
  }
  const ticks = ({ periodSeconds = 10 }: Probe): readonly number[] =>
    Array.from({ length: 1000 / periodSeconds }, (_, index) => (phase + index) * periodSeconds)
  const { startupProbe, livenessProbe = {}, readinessProbe = {} } = probes
  let killedAt = Infinity
  if (startupProbe !== undefined) {
    const { answered, givenUp } = ask(startupProbe, ticks(startupProbe))
    startedAt = answered
    killedAt = givenUp
  }
  if (startedAt === Infinity) return { failed, readyAt: Infinity, killedAt }
  const { answered } = ask(readinessProbe, [startedAt, ...ticks(readinessProbe)])
  const { givenUp } = ask(livenessProbe, ticks(livenessProbe))
  return { failed, readyAt: answered, killedAt: givenUp }
}

/** The worst of all phases. */
function worst(probes: Probes, answersFrom: number): Outcome {
  const steps = Array.from({ length: 20 }, (_, index) => index / 20 + 0.01)
  const outcomes = steps.flatMap((fraction) => steps.map((phase) => probed(probes, answersFrom, fraction, phase)))
  return {
    failed: Math.max(...outcomes.map(({ failed }) => failed)),
    readyAt: Math.max(...outcomes.map(({ readyAt }) => readyAt)),
    killedAt: Math.min(...outcomes.map(({ killedAt }) => killedAt)),
  }
}

for (const [name] of VALUES)
  describe(`the probes of the chart with the values ${name}`, () => {
    const daemonSet = objectsIn(goldenText(name)).find(({ kind }) => kind === 'DaemonSet')
    const container = Object(valueAt(daemonSet, ['spec', 'template', 'spec', 'containers', '0']))
    const probes: Probes = Object.fromEntries(KINDS.map((kind) => [kind, container[kind]]))

    it('make no Event when the daemon answers within a second, and find it ready at most 3 s after its start', () => {
      for (const answersFrom of [0.1, 0.5, 0.95]) {
        const { failed, readyAt } = worst(probes, answersFrom)
        assert.equal(failed, 0, `${answersFrom} s`)
        assert.ok(readyAt <= 3.1, `ready after ${readyAt} s`)
      }
    })

    it('find a daemon with very many Services ready a second after its first pass', () => {
      assert.ok(worst(probes, 3.4).readyAt <= 4.5)
    })

    it('kill a daemon that answers nothing after five minutes, not before', () => {
      const { killedAt } = worst(probes, Infinity)
      assert.ok(killedAt >= 295 && killedAt <= 310, `${killedAt} s`)
    })

    it('ask the same place of the node', () => {
      const places = KINDS.map((kind) => valueAt(container, [kind, 'httpGet']))
      assert.deepEqual(places[0], places[1])
      assert.deepEqual(places[2], { ...Object(places[1]), path: '/healthz' })
    })
  })

it('the probes of a kubelet by the defaults of Kubernetes make Events at a start, and the second is late', () => {
  const { failed, readyAt } = worst({ livenessProbe: {}, readinessProbe: { periodSeconds: 5 } }, 0.5)
  assert.ok(failed >= 2 && readyAt > 4, `${failed} Events, ready after ${readyAt} s`)
})
