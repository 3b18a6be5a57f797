/**
 * Steady traffic by `traffic.c`: established connections that exchange data all the time, and new
 * connections at a rate. For measurements and tests that change the proxy meanwhile.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

export interface TrafficPlace {
  /** IPv4 or IPv6. */
  readonly address: string
  readonly port: number
}

export interface TrafficClientOptions {
  /** Path of the compiled `traffic.c`. */
  readonly program: string
  /** Network namespace of the clients, as `ip netns` names it; absent: that of this process. */
  readonly namespace?: string
  /** At most 64; connections are made to them in turn. */
  readonly places: readonly TrafficPlace[]
  /** After so long without a response a connection has failed; default 10 s. */
  readonly silentSeconds?: number
  /** First source port; two clients of one namespace need different ones. Default 10,000 to hold, 20,000 for a rate. */
  readonly firstPort?: number
}

/** Established connections since the start. */
export interface HeldReport {
  readonly connections: number
  /** Those that ended, or got no response for `silentSeconds`. */
  readonly dropped: number
  readonly responses: number
  /** Longest time from a request to its response, in milliseconds. */
  readonly longestMs: number
}

/** New connections since the start. */
export interface RateReport {
  readonly made: number
  /** Those without a response. */
  readonly failed: number
  /** Those that took 900 ms or longer. */
  readonly slow: number
  /** From connect(2) to the end of the response, in milliseconds. */
  readonly longestMs: number
}

/** Opens `count` connections, each with a request in each period. Resolves when each has got a response. */
export async function holdConnections(
  options: TrafficClientOptions & { readonly count: number; readonly periodMs: number },
): Promise<TrafficClient<HeldReport>> {
  const { count, periodMs, firstPort = 10_000 } = options
  const names = ['connections', 'dropped', 'responses', 'longestMs'] as const
  return TrafficClient.start(options, ['hold', `${firstPort}`, `${count}`, `${periodMs}`], (line) =>
    numbersOf(line, names),
  )
}

/** Makes new connections at a steady rate. Resolves when one has got a response. */
export async function rateOfConnections(
  options: TrafficClientOptions & { readonly perSecond: number },
): Promise<TrafficClient<RateReport>> {
  const { perSecond, firstPort = 20_000 } = options
  const names = ['made', 'failed', 'slow', 'longestMs'] as const
  return TrafficClient.start(options, ['rate', `${firstPort}`, `${perSecond}`], (line) => numbersOf(line, names))
}

export class TrafficClient<Report> {
  readonly #child: ChildProcess
  readonly #lines: AsyncIterator<string>
  /** Resolves when the process has ended and its output is read. */
  readonly #ended: Promise<unknown>
  readonly #parse: (line: string) => Report
  /** One line for each failed connection. */
  failures = ''

  static async start<Report>(
    { program, namespace, places, silentSeconds = 10 }: TrafficClientOptions,
    task: readonly string[],
    parse: (line: string) => Report,
  ): Promise<TrafficClient<Report>> {
    const inside = namespace === undefined ? [] : ['ip', 'netns', 'exec', namespace]
    const argv = [...inside, program, ...task, ...places.flatMap(({ address, port }) => [address, `${port}`])]
    const env = { ...process.env, TRAFFIC_SILENT_SECONDS: `${silentSeconds}` }
    const client = new TrafficClient(spawn('setpriv', ['--pdeathsig', 'KILL', '--', ...argv], { env }), parse)
    if ((await client.#line()) !== 'ready') throw new Error('the clients print no "ready"')
    return client
  }

  private constructor(child: ChildProcess, parse: (line: string) => Report) {
    const { stdout, stderr } = child
    if (stdout === null || stderr === null) throw new Error('the clients have no pipes')
    this.#child = child
    this.#parse = parse
    this.#lines = createInterface(stdout)[Symbol.asyncIterator]()
    this.#ended = once(child, 'close')
    stderr.on('data', (chunk) => {
      this.failures += chunk
    })
  }

  /**
   * Resolves when every established connection has got two more responses or has failed, or when
   * every new connection that is under way now has ended.
   */
  async report(): Promise<Report> {
    this.#child.stdin?.write('\n')
    return this.#parse(await this.#line())
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    this.#child.stdin?.end()
    await this.#ended
  }

  async #line(): Promise<string> {
    const { value, done } = await this.#lines.next()
    if (done !== true) return value
    await this.#ended
    throw new Error(`the clients have ended: ${this.failures.slice(0, 2000)}`)
  }
}

/** Reads `a=1 b=2`. */
function numbersOf<Name extends string>(line: string, names: readonly Name[]): Readonly<Record<Name, number>> {
  const found = new Map([...line.matchAll(/(\w+)=([\d.]+)/g)].map(([, name, value]) => [name, Number(value)]))
  const entries = names.map((name) => {
    const value = found.get(name)
    if (value === undefined) throw new Error(`the clients print no ${name}: ${line.slice(0, 200)}`)
    return [name, value] as const
  })
  return Object.fromEntries(entries) as Record<Name, number> // every name has a number
}
