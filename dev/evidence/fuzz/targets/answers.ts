/** What commands read of others: the answers at a daemon's local socket, and bundles of doctor. */
import { askHere, isUnknown } from '../../../../src/inspect/daemon-client.ts'
import { VIEW_FORMAT } from '../../../../src/inspect/questions.ts'
import { diagnose } from '../../../../src/doctor/diagnose.ts'
import { bundleOf } from '../../../../src/doctor/bundle.ts'
import { diagnosisText } from '../../../../src/cli/doctor-text.ts'
import { rule, type Target, unlessRefused } from '../target.ts'

/** Every question to a daemon that answers with these bytes. */
async function readAnswers(input: Uint8Array): Promise<void> {
  const body = Buffer.from(input).toString()
  for (const status of [200, 400]) {
    const client = askHere(() => Promise.resolve({ status, server: 'kube-ipvs/0.1.0', body }))
    const answers = [
      await client.daemon(),
      await client.services('a/b'),
      await client.rows(),
      await client.drains(),
      await client.pod('a/b'),
      await client.connections(['10.0.0.1'], true),
    ]
    for (const answer of answers)
      if (isUnknown(answer) && 'reason' in answer) rule(!/\p{Cc}/u.test(answer.reason), 'a reason is printable')
  }
}

function readBundle(input: Uint8Array): void {
  const facts = unlessRefused(['bundle-invalid'], () => bundleOf('a.json', Buffer.from(input).toString()))
  if (facts === undefined) return
  const lines = diagnosisText(diagnose(facts), { style: (_, text) => text, columns: 80, bundle: 'a.json' })
  rule(
    lines.every((line) => !/\p{Cc}/u.test(line)),
    'a report controls no terminal',
  )
}

export const ANSWER_TARGETS: readonly Target[] = [
  {
    name: 'socket-views',
    slice: 300,
    what: 'answers at the local socket, as commands read them',
    form: 'json',
    words: [
      'format',
      'error',
      'code',
      'message',
      'services',
      'frontends',
      'endpoints',
      'ipvs',
      'IPv4',
      'tcp',
      'Cluster',
    ],
    seeds: () => [
      JSON.stringify({ format: VIEW_FORMAT, error: { code: 'starting', message: 'no proxy yet' } }),
      JSON.stringify({
        format: VIEW_FORMAT,
        drains: [{ virtualServer: 'a', realServer: 'b', servicePort: null, seconds: 1, deadlineSeconds: null }],
        omitted: 0,
      }),
      JSON.stringify({
        format: VIEW_FORMAT,
        active: 1,
        inactive: 0,
        udp: null,
        addresses: [],
        endpoints: [],
        services: [],
        tables: [],
        unread: [],
        wrong: [],
      }),
    ],
    run: readAnswers,
  },
  {
    name: 'bundles',
    slice: 100,
    what: 'bundles of doctor, and the report about them',
    form: 'json',
    words: [
      'value',
      'unseen',
      'error',
      'daemon',
      'rules',
      'cluster',
      'IPv4',
      'nft',
      'KUBE-SERVICES',
      '-j DROP',
      '10.0.0.1/24',
    ],
    maxBytes: 32 * 1024,
    run: readBundle,
  },
]
