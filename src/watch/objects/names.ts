/**
 * The names that the API server lets objects have (apimachinery pkg/util/validation, 1.36). An object of a manifest was seen
 * by no API server, and its names stand in log lines and in comments of rules.
 */
/** RFC 1123 label. A Service's name has been one since KEP-5311; before that it could not begin with a digit (RFC 1035). */
const LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/
const MAX_SUBDOMAIN = 253

/** Namespaces, Services, and ports of Services and slices: a DNS label of up to 63 letters. */
export function isDnsLabel(name: string): boolean {
  return LABEL.test(name)
}

/** EndpointSlices and Nodes: DNS labels with dots between them, up to 253 letters. */
export function isDnsSubdomain(name: string): boolean {
  return name.length <= MAX_SUBDOMAIN && SUBDOMAIN.test(name)
}
