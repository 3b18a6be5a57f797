/** Faults of the API server. */
import { setTimeout as sleep } from 'node:timers/promises'
import { makeNode } from '../../api-server/generate.ts'
import { NODE_NAME } from '../../bench/guest-node.ts'
import type { Fault } from './fault.ts'
import { when } from './node.ts'

/** The longest wait between requests is 60 s: 30 s, and as much again by chance. */
const RETRY_S = 90
/** A watch without a bookmark for so long is dead: 150 s (src/watch/reflect/reflector-times.ts). */
const SILENT_WATCH_S = 200

export const API_FAULTS: readonly Fault[] = [
  {
    name: 'storm of 410: every watch ends after a second, every version is too old',
    expectation: {
      text: 'nothing is lost; lists bring the changes, at growing intervals',
      change: { from: 'fault', withinS: RETRY_S },
    },
    seconds: 60,
    inject: ({ api }) => api.expire(1_000),
    heal: ({ api }) => api.tell('heal'),
  },
  {
    name: 'API server slow by 10 s',
    expectation: {
      text: 'nothing is lost; changes wait for one answer',
      change: { from: 'fault', withinS: RETRY_S },
    },
    seconds: 45,
    inject({ api }) {
      api.inject({ times: 1e9, action: { kind: 'slow', delayMs: 10_000 } })
      api.tell('reset connections')
    },
    heal: ({ api }) => api.tell('heal'),
  },
  {
    name: 'API server empty',
    expectation: {
      text: 'as kube-proxy: a complete list counts, so every Service is removed, and returns with its objects',
      dropped: 'any',
      failed: 'any',
      change: { from: 'fault', withinS: RETRY_S },
    },
    seconds: 30,
    async inject({ api }) {
      await api.kill()
      api.hide()
      await api.start()
    },
    async heal({ api }) {
      await api.kill()
      api.unhide()
      await api.start()
    },
  },
  {
    name: 'API server frozen',
    expectation: {
      text: 'nothing is lost; changes wait; the log has the pings without an answer',
      change: { from: 'end', withinS: RETRY_S },
      reads: /did not answer a ping/,
    },
    seconds: 75,
    inject: ({ api }) => api.signal('SIGSTOP'),
    heal: ({ api }) => api.signal('SIGCONT'),
  },
  {
    name: 'API server gone',
    expectation: {
      text: 'nothing is lost; changes wait; the log has it once a minute',
      change: { from: 'end', withinS: RETRY_S },
      reads: /Failed to watch/,
    },
    seconds: 45,
    inject: async ({ api }) => api.kill(),
    heal: async ({ api }) => api.start(),
  },
  {
    name: 'API server rolled back to a backup',
    expectation: {
      text: 'nothing is lost; watches from versions that are lost are silent, and are given up after 150 s',
      change: { from: 'fault', withinS: SILENT_WATCH_S },
    },
    seconds: 200,
    async inject(node) {
      const { api } = node
      const backup = api.state
      // Written after the backup, and so lost with it.
      const lost = node.add()
      if ((await when(lost.isServed, 30_000)) === null) throw new Error('the Service is not served')
      for (let write = 0; write < 100; write++) api.put('nodes', makeNode(NODE_NAME))
      // Until a bookmark has told every watch the version that is lost.
      await sleep(15_000)
      await api.kill()
      api.restore(backup)
      await api.start()
    },
  },
]
