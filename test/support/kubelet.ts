/**
 * What a kubelet does with a pod, for one node of the tests: volumes as folders, with ConfigMaps
 * behind the link `..data`; environment and $(NAME) in commands; init containers in turn, then the
 * container; probes. A field that this kubelet does not know is an error, so that a test never
 * starts a container otherwise than its manifest says.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { CAPABILITIES, type Capability, type Container, inContainer, type Mount } from './container-runtime.ts'

interface EnvVar {
  readonly name: string
  readonly value?: string
  readonly valueFrom?: { readonly fieldRef: { readonly fieldPath: string } }
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string | number; readonly host?: string }
  readonly timeoutSeconds?: number
}
interface SecurityContext {
  readonly privileged?: boolean
  readonly runAsUser?: number
  readonly runAsGroup?: number
  readonly allowPrivilegeEscalation?: boolean
  readonly readOnlyRootFilesystem?: boolean
  readonly capabilities?: { readonly add?: readonly string[]; readonly drop?: readonly string[] }
  readonly seccompProfile?: { readonly type: string }
}
export interface ContainerSpec {
  readonly name: string
  readonly command: readonly string[]
  readonly args?: readonly string[]
  readonly env?: readonly EnvVar[]
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[]
  readonly securityContext: SecurityContext
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[]
  readonly startupProbe?: Probe
  readonly livenessProbe?: Probe
  readonly readinessProbe?: Probe
}
interface Item {
  readonly key: string
  readonly path: string
}
interface Projection {
  readonly serviceAccountToken?: { readonly path: string }
  readonly configMap?: { readonly name: string; readonly items: readonly Item[] }
  readonly downwardAPI?: {
    readonly items: readonly { readonly path: string; readonly fieldRef: { readonly fieldPath: string } }[]
  }
}
interface Volume {
  readonly name: string
  readonly configMap?: { readonly name: string }
  readonly projected?: { readonly sources: readonly Projection[] }
  readonly hostPath?: { readonly path: string; readonly type?: string }
}
export interface PodSpec {
  readonly hostNetwork?: boolean
  readonly initContainers?: readonly ContainerSpec[]
  readonly containers: readonly ContainerSpec[]
  readonly volumes?: readonly Volume[]
}

/** Fields that this kubelet follows, and those that change nothing for a process on a node that is chosen already. */
const KNOWN = {
  pod:
    'hostNetwork initContainers containers volumes ' +
    'dnsPolicy enableServiceLinks serviceAccountName automountServiceAccountToken priorityClassName ' +
    'terminationGracePeriodSeconds nodeSelector tolerations restartPolicy',
  container:
    'name command args env ports securityContext volumeMounts startupProbe livenessProbe readinessProbe ' +
    'image imagePullPolicy resources',
  security:
    'privileged runAsUser runAsGroup allowPrivilegeEscalation readOnlyRootFilesystem capabilities seccompProfile',
  volume: 'name configMap projected hostPath',
  mount: 'name mountPath readOnly',
} as const

export interface NodeOptions {
  readonly nodeName: string
  readonly namespace: string
  /** Data of ConfigMaps by name, as the API server has them. */
  readonly configMaps: ReadonlyMap<string, Readonly<Record<string, string>>>
  /** The token of the pod's ServiceAccount. */
  readonly token: string
  /** Root file system of every image. */
  readonly root: string
  /** Whether the kernel of this machine can do what the seccomp profile is written for. */
  readonly hasSeccomp: boolean
}

export interface Ended {
  readonly code: number | null
  readonly log: string
}

export class Kubelet {
  readonly #options: NodeOptions
  readonly #folder = mkdtempSync(join(tmpdir(), 'kube-ipvs-kubelet-'))
  readonly #running = new Set<ChildProcess>()
  #versions = 0
  /** What main containers have written. */
  log = ''

  constructor(options: NodeOptions) {
    this.#options = options
  }

  /**
   * Runs the init containers and starts the main container, of which a pod has one. Rejects when an
   * init container fails.
   */
  async start(pod: PodSpec): Promise<{ readonly initialized: string; readonly child: ChildProcess }> {
    this.#check('pod', pod)
    if (pod.hostNetwork !== true) throw new Error('every pod of these tests is on the network of its node')
    const volumes = new Map((pod.volumes ?? []).map((volume) => [volume.name, this.#volume(volume)]))
    let initialized = ''
    for (const container of pod.initContainers ?? []) {
      const { code, log } = await this.#end(this.#spawn(container, volumes))
      if (code !== 0) throw new Error(`init container ${container.name} ended with ${code}:\n${log}`)
      initialized += log
    }
    const [container, ...more] = pod.containers
    if (container === undefined || more.length > 0) throw new Error('one container a pod')
    const child = this.#spawn(container, volumes)
    this.#running.add(child)
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk) => {
        this.log += chunk
      })
    return { initialized, child }
  }

  /** Runs a pod whose container ends by itself. */
  async run(pod: PodSpec): Promise<Ended> {
    const before = this.log.length
    const { child } = await this.start(pod)
    const code = await ended(child)
    this.#running.delete(child)
    return { code, log: this.log.slice(before) }
  }

  /** Writes the new data of a ConfigMap into every volume of it, as a kubelet does: one rename replaces all files. */
  update(name: string, data: Readonly<Record<string, string>>): void {
    this.#write(join(this.#folder, `configmap-${name}`), data)
  }

  /** The HTTP status of a probe; 0 without an answer. */
  async probe(
    container: ContainerSpec,
    kind: `${'startup' | 'liveness' | 'readiness'}Probe`,
    address: string,
  ): Promise<number> {
    const probe = container[kind]
    if (probe === undefined) throw new Error(`${container.name} has no ${kind}`)
    const { path, port, host = address } = probe.httpGet
    const number = typeof port === 'number' ? port : container.ports?.find(({ name }) => name === port)?.containerPort
    const signal = AbortSignal.timeout(1000 * (probe.timeoutSeconds ?? 1))
    const url = `http://${host.includes(':') ? `[${host}]` : host}:${number}${path}`
    return fetch(url, { signal, headers: { connection: 'close' } }).then(
      ({ status }) => status,
      () => 0,
    )
  }

  async stop(child: ChildProcess): Promise<number | null> {
    this.#running.delete(child)
    child.kill('SIGTERM')
    return ended(child)
  }

  async close(): Promise<void> {
    for (const child of this.#running) child.kill('SIGKILL')
    await Promise.all([...this.#running].map(ended))
    rmSync(this.#folder, { recursive: true })
  }

  #check(kind: keyof typeof KNOWN, object: object): void {
    const known = KNOWN[kind].split(' ')
    const unknown = Object.keys(object).filter((key) => !known.includes(key))
    if (unknown.length > 0) throw new Error(`the kubelet of the tests does not know ${kind}.${unknown.join(', ')}`)
  }

  #spawn(spec: ContainerSpec, volumes: ReadonlyMap<string, string>): ChildProcess {
    this.#check('container', spec)
    const env = Object.fromEntries((spec.env ?? []).map((variable) => [variable.name, this.#valueOf(variable)]))
    const expand = (text: string): string => text.replace(/\$\((\w+)\)/g, (all, name: string) => env[name] ?? all)
    const command = [...spec.command, ...(spec.args ?? [])].map(expand)
    const [program, ...args] = inContainer(this.#container(spec, volumes), command)
    // The variables of an image that has no others.
    return spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', ...env },
    })
  }

  #container({ securityContext, volumeMounts = [] }: ContainerSpec, volumes: ReadonlyMap<string, string>): Container {
    this.#check('security', securityContext)
    const { privileged = false, capabilities = {}, allowPrivilegeEscalation = true } = securityContext
    const { runAsUser = 0, runAsGroup = 0, seccompProfile, readOnlyRootFilesystem = false } = securityContext
    if (runAsUser !== 0 || runAsGroup !== 0) throw new Error('every container of these tests runs as user 0')
    if (!privileged && capabilities.drop?.includes('ALL') !== true)
      throw new Error('what a runtime gives to a container that does not drop ALL is not known here')
    const mounts = volumeMounts.map((mount): Mount => {
      this.#check('mount', mount)
      const source = volumes.get(mount.name)
      if (source === undefined) throw new Error(`no volume ${mount.name}`)
      return { source, target: mount.mountPath, readOnly: mount.readOnly ?? false }
    })
    for (const file of ['/etc/resolv.conf', '/etc/hosts'])
      if (existsSync(file)) mounts.push({ source: file, target: file, readOnly: false })
    return {
      privileged,
      capabilities: (capabilities.add ?? []).map(capabilityOf),
      mayGainPrivileges: allowPrivilegeEscalation,
      hasSeccompProfile: this.#options.hasSeccomp && seccompProfile?.type === 'RuntimeDefault',
      root: this.#options.root,
      isRootReadOnly: readOnlyRootFilesystem,
      mounts,
    }
  }

  #valueOf({ name, value, valueFrom }: EnvVar): string {
    return value ?? this.#fieldOf(valueFrom?.fieldRef.fieldPath ?? name)
  }

  #fieldOf(path: string): string {
    const { nodeName, namespace } = this.#options
    if (path === 'spec.nodeName') return nodeName
    if (path === 'metadata.namespace') return namespace
    throw new Error(`the kubelet of the tests does not know the field ${path}`)
  }

  /** Makes the volume; returns its folder or file on the node. */
  #volume(volume: Volume): string {
    this.#check('volume', volume)
    const { name, configMap, projected, hostPath } = volume
    if (hostPath !== undefined) {
      if (hostPath.type === 'DirectoryOrCreate') {
        mkdirSync(hostPath.path, { recursive: true, mode: 0o755 })
        return hostPath.path
      }
      if (hostPath.type !== 'FileOrCreate') throw new Error(`unknown type of hostPath: ${hostPath.type}`)
      if (!existsSync(hostPath.path)) writeFileSync(hostPath.path, '')
      return hostPath.path
    }
    if (configMap !== undefined) return this.#configMapFolder(configMap.name)
    const folder = join(this.#folder, `volume-${name}`)
    this.#write(folder, Object.assign({}, ...(projected?.sources ?? []).map((source) => this.#project(source))))
    return folder
  }

  #configMapFolder(name: string): string {
    const folder = join(this.#folder, `configmap-${name}`)
    if (!existsSync(folder)) this.#write(folder, this.#dataOf(name))
    return folder
  }

  #dataOf(name: string): Readonly<Record<string, string>> {
    const data = this.#options.configMaps.get(name)
    if (data === undefined) throw new Error(`no ConfigMap ${name}`)
    return data
  }

  #project({ serviceAccountToken, configMap, downwardAPI }: Projection): Record<string, string> {
    const files: Record<string, string> = {}
    if (serviceAccountToken !== undefined) files[serviceAccountToken.path] = this.#options.token
    for (const { key, path } of configMap?.items ?? []) files[path] = this.#dataOf(configMap?.name ?? '')[key] ?? ''
    for (const { path, fieldRef } of downwardAPI?.items ?? []) files[path] = this.#fieldOf(fieldRef.fieldPath)
    return files
  }

  /** `..VERSION/FILE`, `..data` which links to the version, and a link to each file through `..data`. */
  #write(folder: string, files: Readonly<Record<string, string>>): void {
    const version = `..2026_11_22_${++this.#versions}`
    for (const [path, text] of Object.entries(files)) {
      const file = join(folder, version, path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, text)
    }
    symlinkSync(version, join(folder, '..data_tmp'))
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
    for (const path of Object.keys(files))
      if (!existsSync(join(folder, path))) symlinkSync(join('..data', path), join(folder, path))
  }

  async #end(child: ChildProcess): Promise<Ended> {
    let log = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk) => {
        log += chunk
      })
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
    return { code, log }
  }
}

function ended(child: ChildProcess): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode)
  return new Promise((resolve) => child.once('close', (code) => resolve(code)))
}

function capabilityOf(name: string): Capability {
  if (!Object.hasOwn(CAPABILITIES, name))
    throw new Error(`the kubelet of the tests does not know the capability ${name}`)
  return name as Capability // one of its keys
}
