/**
 * The families that every program of Kubernetes has, as kube-proxy 1.36 describes them: the process, its requests to the API server.
 * What could break: everything here but the health checks is held against kube-proxy's own page by a test.
 */
import { REQUEST_BYTES, REQUEST_SECONDS } from './buckets.ts'
import type { Families } from './family.ts'

/** The process. */
export const PROCESS = {
  cpu: {
    name: 'process_cpu_seconds_total',
    type: 'counter',
    help: 'Total user and system CPU time spent in seconds.',
    labels: [],
  },
  maxFds: {
    name: 'process_max_fds',
    type: 'gauge',
    help: 'Maximum number of open file descriptors.',
    labels: [],
  },
  networkReceiveBytes: {
    name: 'process_network_receive_bytes_total',
    type: 'counter',
    help: 'Number of bytes received by the process over the network.',
    labels: [],
  },
  networkTransmitBytes: {
    name: 'process_network_transmit_bytes_total',
    type: 'counter',
    help: 'Number of bytes sent by the process over the network.',
    labels: [],
  },
  openFds: {
    name: 'process_open_fds',
    type: 'gauge',
    help: 'Number of open file descriptors.',
    labels: [],
  },
  residentMemoryBytes: {
    name: 'process_resident_memory_bytes',
    type: 'gauge',
    help: 'Resident memory size in bytes.',
    labels: [],
  },
  startTime: {
    name: 'process_start_time_seconds',
    type: 'gauge',
    help: 'Start time of the process since unix epoch in seconds.',
    labels: [],
  },
  virtualMemoryBytes: {
    name: 'process_virtual_memory_bytes',
    type: 'gauge',
    help: 'Virtual memory size in bytes.',
    labels: [],
  },
  virtualMemoryMaxBytes: {
    name: 'process_virtual_memory_max_bytes',
    type: 'gauge',
    help: 'Maximum amount of virtual memory available in bytes.',
    labels: [],
  },
} satisfies Families

/** The program. */
export const KUBERNETES = {
  buildInfo: {
    name: 'kubernetes_build_info',
    type: 'gauge',
    help: "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    labels: [
      'build_date',
      'compiler',
      'git_commit',
      'git_tree_state',
      'git_version',
      'go_version',
      'major',
      'minor',
      'platform',
    ],
  },
  featureEnabled: {
    name: 'kubernetes_feature_enabled',
    type: 'gauge',
    help: '[BETA] This metric records the data about the stage and enablement of a k8s feature.',
    labels: ['name', 'stage'],
  },
} satisfies Families

/** Requests to the API server. */
export const REQUESTS = {
  rateLimiterDuration: {
    name: 'rest_client_rate_limiter_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] Client side rate limiter latency in seconds. Broken down by verb, and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_SECONDS,
  },
  requestDuration: {
    name: 'rest_client_request_duration_seconds',
    type: 'histogram',
    help: '[ALPHA] Request latency in seconds. Broken down by verb, and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_SECONDS,
  },
  requestSizeBytes: {
    name: 'rest_client_request_size_bytes',
    type: 'histogram',
    help: '[ALPHA] Request size in bytes. Broken down by verb and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_BYTES,
  },
  requests: {
    name: 'rest_client_requests_total',
    type: 'counter',
    help: '[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.',
    labels: ['code', 'host', 'method'],
  },
  responseSizeBytes: {
    name: 'rest_client_response_size_bytes',
    type: 'histogram',
    help: '[ALPHA] Response size in bytes. Broken down by verb and host.',
    labels: ['host', 'verb'],
    buckets: REQUEST_BYTES,
  },
} satisfies Families

/** What `/metrics/slis` gives. */
export const SLIS = {
  healthcheck: {
    name: 'kubernetes_healthcheck',
    type: 'gauge',
    help: '[STABLE] This metric records the result of a single healthcheck.',
    labels: ['name', 'type'],
  },
  healthchecks: {
    name: 'kubernetes_healthchecks_total',
    type: 'counter',
    help: '[STABLE] This metric records the results of all healthcheck.',
    labels: ['name', 'status', 'type'],
  },
  startTime: {
    name: 'process_start_time_seconds',
    type: 'gauge',
    help: '[ALPHA] Start time of the process since unix epoch in seconds.',
    labels: [],
  },
} satisfies Families
