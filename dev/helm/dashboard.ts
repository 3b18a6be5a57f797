/** Makes helm/files/dashboard.json, the Grafana dashboard of the chart, from a list of its panels. */

interface Panel {
  readonly title: string
  readonly description: string
  /** Grafana's name of the unit. */
  readonly unit: string
  /** PromQL and the legend of its series. JOB stands for the selector of the job and the nodes. */
  readonly queries: readonly (readonly [expression: string, legend: string])[]
}

const LATENCY = 'histogram_quantile(0.99, sum by (le, node) (rate(METRIC_bucket{JOB}[$__rate_interval])))'
const p99 = (metric: string): string => LATENCY.replace('METRIC', metric)

const ROWS: Readonly<Record<string, readonly Panel[]>> = {
  Overview: [
    {
      title: 'Nodes by mode',
      description: 'A reason behind the mode says why a node is not in the mode that is configured.',
      unit: 'short',
      queries: [['count by (active, reason) (kubeipvs_mode{JOB})', '{{active}} {{reason}}']],
    },
    {
      title: 'Services',
      description: 'Services that a node serves.',
      unit: 'short',
      queries: [
        ['max(kubeipvs_services{JOB})', 'Services'],
        ['max(kubeipvs_real_servers{JOB})', 'real servers'],
      ],
    },
    {
      title: 'From a change of endpoints to the kernel, p99',
      description: 'Since the time that the controller of EndpointSlices noted.',
      unit: 's',
      queries: [[p99('kubeproxy_network_programming_duration_seconds'), '{{node}}']],
    },
    {
      title: 'Duration of a pass, p99',
      description: '',
      unit: 's',
      queries: [[p99('kubeproxy_sync_proxy_rules_duration_seconds'), '{{node}}']],
    },
  ],
  'The kernel': [
    {
      title: 'Items missing or waiting',
      description: 'Items that a table should have and has not, and items that wait for rules or source ranges.',
      unit: 'short',
      queries: [
        ['kubeipvs_table_wanted_entries{JOB} - kubeipvs_table_entries{JOB} > 0', '{{node}} {{table}} missing'],
        ['kubeipvs_table_waiting_entries{JOB} > 0', '{{node}} {{table}} waiting'],
      ],
    },
    {
      title: 'Operations',
      description: 'Changes of the tables of the kernel.',
      unit: 'ops',
      queries: [
        [
          'sum by (table, direction, outcome) (rate(kubeipvs_operations_total{JOB}[$__rate_interval]))',
          '{{table}} {{direction}} {{outcome}}',
        ],
      ],
    },
    {
      title: 'Repairs and failures',
      description: 'Changes of other programs that were repaired, and passes, reads and audits that failed.',
      unit: 'ops',
      queries: [
        [
          'sum by (node, table) (rate(kubeipvs_drift_repaired_total{JOB}[$__rate_interval]))',
          '{{node}} {{table}} repaired',
        ],
        ['sum by (node, part) (rate(kubeipvs_sync_failures_total{JOB}[$__rate_interval]))', '{{node}} {{part}} failed'],
        [
          'sum by (node, table) (rate(kubeipvs_read_failures_total{JOB}[$__rate_interval]))',
          '{{node}} {{table}} unreadable',
        ],
        [
          'sum by (node, audit) (rate(kubeipvs_audit_failures_total{JOB}[$__rate_interval]))',
          '{{node}} audit of {{audit}} failed',
        ],
      ],
    },
    {
      title: 'Draining real servers and conflicts',
      description: 'Endpoints that are gone but still have connections, and addresses that several Services claim.',
      unit: 'short',
      queries: [
        ['kubeipvs_real_servers_draining{JOB} > 0', '{{node}} draining'],
        ['kubeipvs_conflicts{JOB} > 0', '{{node}} conflicts'],
      ],
    },
    {
      title: 'Room of the nodes',
      description: 'What Services take of kubeIPVS.maxRealServers, and addresses and ports that are left out.',
      unit: 'short',
      queries: [
        ['max(kubeipvs_room_used{JOB})', 'used'],
        ['min(kubeipvs_room_limit{JOB})', 'limit'],
        ['kubeipvs_frontends_left_out{JOB} > 0', '{{node}} left out'],
      ],
    },
  ],
  Traffic: [
    {
      title: 'New connections by Service',
      description: 'In ipvs mode, as the kernel counts them.',
      unit: 'cps',
      queries: [
        [
          'topk(10, sum by (namespace, service) (rate(kubeipvs_service_connections_total{JOB}[$__rate_interval])))',
          '{{namespace}}/{{service}}',
        ],
      ],
    },
    {
      title: 'Bytes by Service',
      description: 'In ipvs mode, as the kernel counts them.',
      unit: 'Bps',
      queries: [
        [
          'topk(10, sum by (namespace, service, direction) (rate(kubeipvs_service_bytes_total{JOB}[$__rate_interval])))',
          '{{namespace}}/{{service}} {{direction}}',
        ],
      ],
    },
  ],
  'The process': [
    {
      title: 'Processor time',
      description: '',
      unit: 'percentunit',
      queries: [['rate(process_cpu_seconds_total{JOB}[$__rate_interval])', '{{node}}']],
    },
    {
      title: 'Memory',
      description: 'Resident memory, and what JavaScript objects use of it.',
      unit: 'bytes',
      queries: [
        ['process_resident_memory_bytes{JOB}', '{{node}}'],
        ['kubeipvs_heap_used_bytes{JOB}', '{{node}} heap'],
      ],
    },
    {
      title: 'Delay of the event loop, p99',
      description: '',
      unit: 's',
      queries: [[p99('kubeipvs_event_loop_delay_seconds'), '{{node}}']],
    },
    {
      title: 'Requests to the API server',
      description: '',
      unit: 'reqps',
      queries: [
        ['sum by (code, method) (rate(rest_client_requests_total{JOB}[$__rate_interval]))', '{{method}} {{code}}'],
      ],
    },
  ],
}

/** Every expression of the dashboard, with Grafana's variables. */
export function dashboardExpressions(): readonly string[] {
  return Object.values(ROWS).flatMap((panels) => panels.flatMap(({ queries }) => queries.map(([text]) => text)))
}

const SELECTOR = 'job="$job", node=~"$node"'
const DATASOURCE = { type: 'prometheus', uid: '${datasource}' }

/** Columns of Grafana's grid, and the lines of a panel. */
const WIDTH = 24
const HEIGHT = 8

/** The text of dashboard.json. */
export function dashboardText(): string {
  const panels: object[] = []
  let y = 0
  for (const [title, row] of Object.entries(ROWS)) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: WIDTH, h: 1 },
      panels: [],
    })
    y++
    const width = WIDTH / row.length
    for (const [index, panel] of row.entries())
      panels.push(panelObject(panels.length + 1, panel, { x: index * width, y, w: width, h: HEIGHT }))
    y += HEIGHT
  }
  const dashboard = {
    uid: 'kube-ipvs',
    title: 'kube-ipvs',
    tags: ['kubernetes', 'kube-ipvs'],
    schemaVersion: 39,
    editable: true,
    refresh: '1m',
    time: { from: 'now-3h', to: 'now' },
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus' },
        variable('job', 'Job', 'label_values(kubeipvs_build_info, job)', false),
        variable('node', 'Node', 'label_values(kubeipvs_build_info{job="$job"}, node)', true),
      ],
    },
    panels,
  }
  return `${JSON.stringify(dashboard, undefined, 2)}\n`
}

function panelObject(id: number, { title, description, unit, queries }: Panel, gridPos: object): object {
  return {
    id,
    type: 'timeseries',
    title,
    description,
    gridPos,
    datasource: DATASOURCE,
    fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
    targets: queries.map(([expression, legendFormat], index) => ({
      refId: String.fromCharCode('A'.charCodeAt(0) + index),
      datasource: DATASOURCE,
      expr: expression.replaceAll('JOB', SELECTOR),
      legendFormat,
    })),
  }
}

function variable(name: string, label: string, query: string, all: boolean): object {
  return {
    name,
    label,
    type: 'query',
    datasource: DATASOURCE,
    query: { query, refId: name },
    refresh: 2,
    sort: 1,
    includeAll: all,
    multi: all,
    ...(all ? { allValue: '.*' } : {}),
  }
}
