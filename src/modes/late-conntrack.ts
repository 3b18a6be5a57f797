/**
 * The conntrack connection, opened when it is first needed: most nodes never have a stale UDP flow, and a kernel without
 * ctnetlink does without.
 * What could break: a connection that could not be opened is tried again at the next need.
 */
import { openNetfilter } from '../../native/open.ts'
import { ConntrackConnection, type FlowTable } from '../conntrack/connection.ts'

export class LateConntrack implements FlowTable {
  #opening: Promise<ConntrackConnection> | undefined

  async findFlows(...args: Parameters<FlowTable['findFlows']>): ReturnType<FlowTable['findFlows']> {
    return (await this.#open()).findFlows(...args)
  }

  async deleteFlows(...args: Parameters<FlowTable['deleteFlows']>): ReturnType<FlowTable['deleteFlows']> {
    return (await this.#open()).deleteFlows(...args)
  }

  close(): void {
    this.#opening?.then(
      (connection) => connection.close(),
      () => undefined,
    )
  }

  #open(): Promise<ConntrackConnection> {
    this.#opening ??= this.#tryOpening()
    return this.#opening
  }

  async #tryOpening(): Promise<ConntrackConnection> {
    try {
      return await ConntrackConnection.open(openNetfilter())
    } catch (error) {
      this.#opening = undefined
      throw error
    }
  }
}
