/**
 * A source that is opened before there is anybody to hear it: the lists are on their way while the kernel is opened and
 * looked at, which saves a cold start the API server's time to answer.
 * What could break: the order of what was heard, and that nothing is heard twice.
 */
import type { ObjectSink, Source } from '../watch/source.ts'

type OpenSource = (sink: ObjectSink) => Source

export class EarlySource implements Source {
  readonly #source: Source
  #heard: ((sink: ObjectSink) => void)[] = []
  #sink: ObjectSink | undefined

  /** Opens the source, and gives `work` what it may join it with; the source is closed when that fails. */
  static async during<T>(open: OpenSource, work: (join: OpenSource) => Promise<T>): Promise<T> {
    const early = new EarlySource(open)
    try {
      return await work((sink) => early.join(sink))
    } catch (error) {
      await early.close()
      throw error
    }
  }

  constructor(open: OpenSource) {
    this.#source = open({
      apply: (changes) => this.#tell((sink) => sink.apply(changes)),
      listed: (kind) => this.#tell((sink) => sink.listed(kind)),
      problems: (subject, problems) => this.#tell((sink) => sink.problems(subject, problems)),
    })
  }

  /** From now on this sink hears everything, first what came before. Called once. */
  join(sink: ObjectSink): Source {
    this.#sink = sink
    for (const tell of this.#heard) tell(sink)
    this.#heard = []
    return this
  }

  close(): Promise<void> {
    return this.#source.close()
  }

  #tell(call: (sink: ObjectSink) => void): void {
    if (this.#sink === undefined) this.#heard.push(call)
    else call(this.#sink)
  }
}
