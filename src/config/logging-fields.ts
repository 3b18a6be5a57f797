/** The rows of the table of fields (fields.ts) for logging, which all components of Kubernetes have. */
import { field, LIVE, NO_EFFECT, RESTART } from './field.ts'

const SPLIT_STREAM = {
  doc: 'Errors to standard error and the rest to standard output. Needs the feature gate LoggingAlphaOptions.',
  lostFromFile: true,
  written: 'never',
} as const
const INFO_BUFFER_SIZE = {
  doc: 'Bytes to collect before writing; every line is written at once. Needs the feature gate LoggingAlphaOptions.',
} as const

/** In the order of the reference and of help. */
export const LOGGING_FIELDS = {
  'logging.verbosity': field('level', 0, LIVE, {
    doc: 'How much to log: 0 the most important lines, 2 every change, 4 what helps with debugging.',
    flag: { name: 'v', short: 'v', group: 'first', appliesWithFile: true },
  }),
  'logging.format': field('text', 'text', RESTART, {
    doc: 'Form of the log lines on standard error.',
    words: ['text', 'json'],
    flag: { name: 'logging-format', group: 'process', value: 'text|json', appliesWithFile: true },
  }),
  'logging.vmodule': field('vmodule', [], LIVE, {
    doc: 'Different verbosity for some source files, by patterns with * and ?; text format only.',
    ruleText: 'patterns not empty, without = and comma',
    written: 'unlessDefault',
    flag: { name: 'vmodule', group: 'process', appliesWithFile: true },
  }),
  'logging.flushFrequency': field('flushFrequency', 5_000, NO_EFFECT, {
    doc: 'How often to write buffered lines; every line is written at once.',
    ruleText: 'more than 0',
    flag: { name: 'log-flush-frequency', group: 'unused', appliesWithFile: true },
  }),
  'logging.options.text.splitStream': field('boolean', false, NO_EFFECT, {
    ...SPLIT_STREAM,
    flag: { name: 'log-text-split-stream', group: 'unused', appliesWithFile: true },
  }),
  'logging.options.text.infoBufferSize': field('quantity', '0', NO_EFFECT, {
    ...INFO_BUFFER_SIZE,
    flag: { name: 'log-text-info-buffer-size', group: 'unused', appliesWithFile: true },
  }),
  'logging.options.json.splitStream': field('boolean', false, NO_EFFECT, {
    ...SPLIT_STREAM,
    flag: { name: 'log-json-split-stream', group: 'unused', appliesWithFile: true },
  }),
  'logging.options.json.infoBufferSize': field('quantity', '0', NO_EFFECT, {
    ...INFO_BUFFER_SIZE,
    flag: { name: 'log-json-info-buffer-size', group: 'unused', appliesWithFile: true },
  }),
}
