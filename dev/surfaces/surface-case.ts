/** What the surfaces runner runs: recorded behaviour of kube-proxy, replayed against our code. */
export interface SurfaceCase {
  /** `GROUP/…`, the same in every run. */
  readonly name: string
  /** Mismatches in words; empty when it passes. */
  run(): Promise<readonly string[]>
}
