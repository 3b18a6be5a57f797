/**
 * Answers of the metrics port below /debug: profiles, and the verbosity of the log. They slow the
 * process down or change it, so they exist only with enableProfiling.
 * @impure
 */
import { promisify } from 'node:util'
import { CodedError } from '../values/errors.ts'
import {
  escapeHtml,
  type HttpAnswer,
  type HttpRequest,
  NOT_FOUND,
  queryValue,
  redirectAnswer,
  textAnswer,
} from './http-answer.ts'
import { takeProfile } from './profiles.ts'

/** What the paths below /debug can change. */
export interface DebugPort {
  /** Sets klog's -v. */
  readonly setVerbosity: (level: number) => void
}

const PROFILES = {
  profile: {
    seconds: 30,
    help: 'CPU profile over a number of seconds (seconds=30), as profile.proto for go tool pprof.',
  },
  heap: {
    seconds: 5,
    help: 'Memory allocated within a number of seconds (seconds=5) and not freed since, as profile.proto.',
  },
} as const
type ProfileName = keyof typeof PROFILES
const LONGEST_SECONDS = 300

/** Answers one request to a path below /debug. */
export async function answerDebug(port: DebugPort, request: HttpRequest): Promise<HttpAnswer> {
  const { method, path } = request
  switch (path) {
    case '/debug/pprof':
      return redirectAnswer(method, 302, '/debug/pprof/')
    case '/debug/pprof/':
      return indexPage()
    case '/debug/flags':
    case '/debug/flags/':
      return { status: 200, headers: [], guessedType: 'text/html; charset=utf-8', body: FLAGS_PAGE }
    case '/debug/flags/v':
      return setVerbosity(port, request)
    default:
      break
  }
  const name = path.slice('/debug/pprof/'.length)
  if (!path.startsWith('/debug/pprof/')) return NOT_FOUND
  return isProfile(name) ? profileAnswer(name, request) : unknownProfile('Unknown profile\n', 404)
}

const isProfile = (name: string): name is ProfileName => Object.hasOwn(PROFILES, name)

async function profileAnswer(name: ProfileName, { query, signal }: HttpRequest): Promise<HttpAnswer> {
  const requested = Number(queryValue(query, 'seconds') ?? 0)
  const seconds = requested > 0 ? requested : PROFILES[name].seconds
  if (seconds > LONGEST_SECONDS) return unknownProfile(`profile duration exceeds ${LONGEST_SECONDS} seconds\n`, 400)
  try {
    const taken = await takeProfile(name, seconds, signal)
    if (queryValue(query, 'format') === 'v8')
      return attachment(name === 'heap' ? 'heap.heapprofile' : 'profile.cpuprofile', taken.v8())
    const { gzip } = await import('node:zlib')
    return attachment(name, await promisify(gzip)(taken.pprof()))
  } catch (error) {
    if (!(error instanceof CodedError)) throw error
    return unknownProfile(`Could not enable profiling: ${error.message}\n`, 500)
  }
}

function attachment(filename: string, body: string | Uint8Array): HttpAnswer {
  return {
    status: 200,
    headers: [
      ['Content-Disposition', `attachment; filename="${filename}"`],
      ['Content-Type', 'application/octet-stream'],
      ['X-Content-Type-Options', 'nosniff'],
    ],
    body,
  }
}

function unknownProfile(message: string, status: number): HttpAnswer {
  const answer = textAnswer(message, status)
  return { ...answer, headers: [...answer.headers, ['X-Go-Pprof', '1']] }
}

function indexPage(): HttpAnswer {
  const rows = Object.entries(PROFILES).map(
    ([name, { help }]) =>
      `<tr><td><a href='${name}'>${name}</a></td><td><a href='${name}?format=v8'>for Chrome DevTools</a></td><td>${escapeHtml(help)}</td></tr>`,
  )
  return {
    status: 200,
    headers: [
      ['Content-Type', 'text/html; charset=utf-8'],
      ['X-Content-Type-Options', 'nosniff'],
    ],
    body: `<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n<table>\n${rows.join('\n')}\n</table>\n</body>\n</html>\n`,
  }
}

const FLAGS_PAGE =
  '<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n'

/** klog's verbosity is an int32. */
const HIGHEST_LEVEL = 2 ** 31 - 1

async function setVerbosity(port: DebugPort, request: HttpRequest): Promise<HttpAnswer> {
  const plainAnswer = (status: number, body: string): HttpAnswer => ({
    status,
    headers: [
      ['Content-Type', 'text/plain'],
      ['X-Content-Type-Options', 'nosniff'],
    ],
    body,
  })
  if (request.method !== 'PUT') return plainAnswer(406, 'unsupported http method\n')
  const text = await request.readBody().catch(() => undefined)
  if (text === undefined) return plainAnswer(400, 'the body is too long\n')
  if (!/^\d+$/.test(text))
    return plainAnswer(400, `strconv.ParseUint: parsing ${JSON.stringify(text)}: invalid syntax\n`)
  if (Number(text) > HIGHEST_LEVEL)
    return plainAnswer(400, `strconv.ParseUint: parsing "${text}": value out of range\n`)
  port.setVerbosity(Number(text))
  return plainAnswer(200, `successfully set klog.logging.verbosity to ${text}\n`)
}
