/** What the surfaces runner runs: recorded behaviour of kube-proxy, replayed against our code. */
export interface SurfaceCase {
  /** `GROUP/…`, the same in every run. */
  readonly name: string
  /** Mismatches in words; empty when it passes. */
  run(): Promise<readonly string[]>
}

/** One file or folder of recordings, and the cases in it. */
export interface Recordings {
  /** Its path in a folder of surfaces: `config/flags.txt`. */
  readonly path: string
  /** Reads the cases. `file` is the absolute path, and is there. */
  read(file: string): readonly SurfaceCase[]
}
