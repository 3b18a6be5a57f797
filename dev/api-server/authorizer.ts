/**
 * Who may do what, by rules of RBAC, for the API server of the tests: the rules of a chart are
 * proven by a server that refuses everything else, with the answer of a real one.
 */

/** rbac.authorization.k8s.io/v1 PolicyRule without nonResourceURLs. */
export interface PolicyRule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
  /** Absent: every object of the resource. */
  readonly resourceNames?: readonly string[]
}

/** What a request wants, as a real server derives it from method and URL (RequestInfo). */
export interface RequestedAction {
  /** get, list, watch, create, update, patch, delete or deletecollection */
  readonly verb: string
  /** '' for the core group. */
  readonly group: string
  readonly resource: string
  /** '' at the scope of the cluster. */
  readonly namespace: string
  /** '' when the request names no object. */
  readonly name: string
}

const PATH = /^\/(?:api|apis\/([^/]+))\/[^/]+(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?(?:\/([^/]+))?$/
const VERBS: Readonly<Record<string, string>> = { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' }

/** The action of a request; undefined for a URL that names no resource, such as /version. */
export function actionOf(method: string, url: URL): RequestedAction | undefined {
  const [all, group = '', namespace = '', resource = '', inPath = '', part] = PATH.exec(url.pathname) ?? []
  if (all === undefined) return undefined
  const query = url.searchParams
  // The name counts also when a field selector gives it.
  const name = inPath === '' ? (/^metadata\.name=([^,]+)$/.exec(query.get('fieldSelector') ?? '')?.[1] ?? '') : inPath
  const reading = query.get('watch') === 'true' ? 'watch' : inPath === '' ? 'list' : 'get'
  const verb = VERBS[method] ?? reading
  return {
    verb: verb === 'delete' && inPath === '' ? 'deletecollection' : verb,
    group,
    resource: part === undefined ? resource : `${resource}/${part}`,
    namespace,
    name,
  }
}

/** Whether one of the rules allows the action. */
export function isAllowed(rules: readonly PolicyRule[], action: RequestedAction): boolean {
  const holds = (list: readonly string[], value: string): boolean => list.includes(value) || list.includes('*')
  return rules.some(
    ({ apiGroups, resources, verbs, resourceNames }) =>
      holds(apiGroups, action.group) &&
      holds(resources, action.resource) &&
      holds(verbs, action.verb) &&
      (resourceNames === undefined || resourceNames.includes(action.name)),
  )
}

/** Whom a refusal names. */
const USER = 'system:serviceaccount:kube-system:kube-ipvs'

export class Authorizer {
  /** What clients may do; undefined: everything. */
  rules: readonly PolicyRule[] | undefined
  /** Every request for a resource, whether it was allowed or not. */
  readonly requested: RequestedAction[] = []
  /** The requests that the rules did not allow. */
  readonly refused: RequestedAction[] = []

  /**
   * The message of the 403 for a request; undefined when it is allowed. URLs that name no resource
   * are always allowed.
   */
  refusalOf(method: string, url: URL): string | undefined {
    const action = actionOf(method, url)
    if (action === undefined) return undefined
    this.requested.push(action)
    if (this.rules === undefined || isAllowed(this.rules, action)) return undefined
    this.refused.push(action)
    const { verb, group, resource, namespace, name } = action
    const [plain = ''] = resource.split('/')
    const what = `${plain}${group === '' ? '' : `.${group}`}${name === '' ? '' : ` "${name}"`}`
    const where = namespace === '' ? 'at the cluster scope' : `in the namespace "${namespace}"`
    return `${what} is forbidden: User "${USER}" cannot ${verb} resource "${resource}" in API group "${group}" ${where}`
  }
}
