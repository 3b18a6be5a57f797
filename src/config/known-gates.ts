/**
 * The feature gates of Kubernetes, as kube-proxy registers them, with the gates that each depends
 * on. The lists hold v1.37.2's gates as that release has them (pkg/features, with those of
 * component-base, apiserver, client-go, controller-manager and apiextensions), then those that only
 * v1.36.3 has. A gate that v1.37 locks and v1.36 does not is not locked here, so that a file of
 * either release is accepted.
 */

/** The stage of a gate and its default. */
export interface Gate {
  readonly stage: 'alpha' | 'beta' | 'settled' | 'deprecated'
  readonly on: boolean
  /** It cannot be set to another value than its default. */
  readonly locked: boolean
}

const LISTS: readonly (readonly [gate: Gate, names: string])[] = [
  [
    { stage: 'alpha', on: false, locked: false },
    `
  APIServerWebhookAuthenticationToken APIServingWithRoutine AllAlpha AtomicWriteVolumeUserFields
  CBORServingAndStorage CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR
  ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
  CompositePodGroup ConsistentListFromCacheSkipTimeoutFallback ContainerStopSignals
  ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource DRADerivedAttributes
  DRADeviceCompatibilityGroups DRAListTypeAttributes DRANodeAllocatableResources DRAOptionalNodeOperations
  DRAPartitionableDevicesType DRAResourcePoolStatus DefaultPodSysctls EmptyDirVolumeMode EventedPLEG
  EvictionRequestAPI GRPCContainerProbeTLS H2CContainerProbe ImageVolumeWithDigest
  InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory
  InPlacePodVerticalScalingMemoryBackedVolumes InPlacePodVerticalScalingSchedulerPreemption
  InterPodAffinityHostnameFastPath KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint
  LoggingAlphaOptions MutablePVNodeAffinity NodeLifecycleConditions PodGroupPreemptionPolicy
  PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
  SchedulerPreQueueingHints ShardedListAndWatch StatefulSetRecreateStrategy StorageVersionAPI
  TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions
  UserNamespacesHostNetworkSupport VolumeBindMountOptions WindowsCPUAndMemoryAffinity WorkloadWithJob`,
  ],
  [
    { stage: 'beta', on: true, locked: false },
    `
  APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AllowUnsafeMalformedObjectDeletion
  AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions
  CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation
  ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz ConcurrentWatchObjectDecode ConstrainedImpersonation
  ContainerCheckpoint ContainerRestartRules ContextualLogging DRAConsumableCapacity DRADeviceBindingConditions
  DRAPartitionableDevices DRAResourceClaimGranularStatusAuthorization
  DRASchedulerFilterTimeout DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas
  DetectCacheInconsistency EnvFiles EtcdRangeStream ExcludeAdmissionWebhookVirtualResources
  ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAGeneration
  HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction InOrderInformersBatchProcess
  InPlacePodLevelResourcesVerticalScaling KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
  KubeletInUserNamespace KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders
  ListFromCacheSnapshot LoggingBetaOptions ManifestBasedAdmissionControlConfig MatchLabelKeysInPodTopologySpread
  MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MemoryQoS
  MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NFTablesNetlink
  NativeHistograms NodeControllerLeaseCircuitBreaker NominatedNodeNameForExpectation OpenAPIEnums
  OpportunisticBatching PersistentVolumeClaimUnusedSinceTime PodDeletionCost PodLevelResources
  PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodTopologyLabelsAdmission PodsAPI
  PortForwardWebsockets ReloadKubeletClientCAFile ReloadKubeletServerCertificateFile RemoteRequestHeaderUID
  ResourceHealthStatus ResourceHealthStatusMessage RestartAllContainersOnContainerExits
  RotateKubeletServerCertificate SchedulerAsyncPreemption SchedulerPopFromBackoffQ
  ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet
  StaleControllerConsistencyHPA StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
  StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageCapacityScoring
  StorageVersionHash StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
  StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
  TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
  UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO VolumeLimitScaling WatchList WatchListClient
  WatchListCompression WebhookRoundTripLoadBalancing WindowsGracefulNodeShutdown`,
  ],
  [
    { stage: 'beta', on: false, locked: false },
    `
  AllBeta CoordinatedLeaderElection DRAFractionalCapacityRange DRAWorkloadResourceClaims GenericWorkload
  LocalStorageCapacityIsolationFSQuotaMonitoring PodAndContainerStatsFromCRI PodLevelResourceManagers
  SchedulerAsyncAPICalls`,
  ],
  [
    { stage: 'settled', on: true, locked: false },
    `
  AllowServiceExternalIPs ClusterTrustBundle ClusterTrustBundleProjection CustomCPUCFSQuotaPeriod
  DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus
  HPAConfigurableTolerance HostnameOverride InPlacePodVerticalScalingInitContainers InformerResourceVersion
  MutatingAdmissionPolicy NodeDeclaredFeatures PLEGOnDemandRelist PodCertificateRequest
  PodReadyToStartContainersCondition RelaxedServiceNameValidation SELinuxMount StorageVersionMigrator
  WatchCacheInitializationPostStartHook`,
  ],
  [
    { stage: 'settled', on: true, locked: true },
    `
  CPUManagerPolicyOptions CRDValidationRatcheting CSIServiceAccountTokenSecrets CustomResourceFieldSelectors
  DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
  ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
  JobManagedBy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources
  KubeletPodResourcesGet KubeletTracing MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator
  MutableCSINodeAllocatableCount NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap
  PodObservedGenerationTracking PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType
  RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedEnvironmentVariableValidation SELinuxChangePolicy
  SELinuxMountReadWriteOncePod SeparateTaintEvictionController ServiceAccountTokenJTI
  ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo
  SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
  VolumeAttributesClass WinDSR WinOverlay`,
  ],
  [
    { stage: 'deprecated', on: true, locked: false },
    `
  DisableCPUQuotaWithExclusiveCPUs KubeProxyIPVS KubeletPodResourcesListUseActivePods
  ServiceCIDRStatusFieldWiping StorageNamespaceIndex`,
  ],
  [
    { stage: 'deprecated', on: false, locked: false },
    `
  AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
  DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork`,
  ],
  [
    { stage: 'deprecated', on: false, locked: true },
    `
  AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC`,
  ],
  [
    { stage: 'deprecated', on: true, locked: true },
    `
  AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion`,
  ],
]

/** Gates that v1.37 does not have any more, as v1.36 has them. */
const GONE_IN_1_37: typeof LISTS = [
  [
    { stage: 'alpha', on: false, locked: false },
    `
  GangScheduling WorkloadAwarePreemption`,
  ],
  [
    { stage: 'beta', on: true, locked: false },
    `
  PreventStaticPodAPIReferences`,
  ],
  [
    { stage: 'settled', on: true, locked: true },
    `
  APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
  AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache JobBackoffLimitPerIndex JobPodReplacementPolicy
  JobSuccessPolicy LogarithmicScaleDown OrderedNamespaceDeletion PodLifecycleSleepAction
  PodLifecycleSleepActionAllowZero RelaxedDNSSearchValidation ResilientWatchCacheInitialization
  RetryGenerateName SchedulerQueueingHints SidecarContainers StreamingCollectionEncodingToJSON
  StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration`,
  ],
]

/** The gates that a gate depends on: `gate: needed needed`. */
const NEEDS = `
  AuthorizeNodeWithSelectors: AuthorizeWithSelectors
  ClusterTrustBundleProjection: ClusterTrustBundle
  CompositePodGroup: GenericWorkload TopologyAwareWorkloadScheduling
  DRAAdminAccess: DynamicResourceAllocation
  DRAConsumableCapacity: DynamicResourceAllocation
  DRADerivedAttributes: DynamicResourceAllocation
  DRADeviceBindingConditions: DRAResourceClaimDeviceStatus DynamicResourceAllocation
  DRADeviceCompatibilityGroups: DRAPartitionableDevices DynamicResourceAllocation
  DRADeviceTaintRules: DRADeviceTaints
  DRADeviceTaints: DynamicResourceAllocation
  DRAExtendedResource: DynamicResourceAllocation
  DRAFractionalCapacityRange: DRAConsumableCapacity
  DRAListTypeAttributes: DynamicResourceAllocation
  DRANodeAllocatableResources: DynamicResourceAllocation
  DRAOptionalNodeOperations: DynamicResourceAllocation NodeDeclaredFeatures
  DRAPartitionableDevices: DynamicResourceAllocation
  DRAPartitionableDevicesType: DRAPartitionableDevices DRAResourcePoolStatus DynamicResourceAllocation
  DRAPrioritizedList: DynamicResourceAllocation
  DRAResourceClaimGranularStatusAuthorization: DRAResourceClaimDeviceStatus DynamicResourceAllocation
  DRAResourcePoolStatus: DynamicResourceAllocation
  DRASchedulerFilterTimeout: DynamicResourceAllocation
  DRAWorkloadResourceClaims: DynamicResourceAllocation GenericWorkload
  DeclarativeValidationBeta: DeclarativeValidation
  DeclarativeValidationTakeover: DeclarativeValidation
  DisableAllocatorDualWrite: MultiCIDRServiceAllocator
  EventedPLEG: PLEGOnDemandRelist
  ExtendWebSocketsToKubelet: NodeDeclaredFeatures
  GangScheduling: GenericWorkload
  GracefulNodeShutdownBasedOnPodPriority: GracefulNodeShutdown
  H2CContainerProbe: NodeDeclaredFeatures
  ImageVolumeWithDigest: ImageVolume
  InPlacePodLevelResourcesVerticalScaling: InPlacePodVerticalScaling NodeDeclaredFeatures PodLevelResources
  InPlacePodVerticalScalingExclusiveCPUs: InPlacePodVerticalScaling
  InPlacePodVerticalScalingExclusiveMemory: InPlacePodVerticalScaling
  InPlacePodVerticalScalingInitContainers: InPlacePodVerticalScaling NodeDeclaredFeatures
  InPlacePodVerticalScalingMemoryBackedVolumes: InPlacePodVerticalScaling NodeDeclaredFeatures
  InPlacePodVerticalScalingSchedulerPreemption: InPlacePodVerticalScaling
  KubeletAllocatedPodsEndpoint: InPlacePodVerticalScaling
  MatchLabelKeysInPodTopologySpreadSelectorMerge: MatchLabelKeysInPodTopologySpread
  NodeControllerLeaseCircuitBreaker: AtomicFIFO
  PodGroupPreemptionPolicy: GenericWorkload
  PodLevelResourceManagers: PodLevelResources
  PodLevelResourcesFixDefaulting: PodLevelResources
  PodLevelResourcesFixKubeletQOSClass: PodLevelResources
  PodLifecycleSleepActionAllowZero: PodLifecycleSleepAction
  ProcMountType: UserNamespacesSupport
  ResourceHealthStatus: DynamicResourceAllocation
  ResourceHealthStatusMessage: ResourceHealthStatus
  RestartAllContainersOnContainerExits: ContainerRestartRules NodeDeclaredFeatures
  ServiceAccountTokenNodeBinding: ServiceAccountTokenNodeBindingValidation
  StaleControllerConsistencyDaemonSet: AtomicFIFO
  StaleControllerConsistencyHPA: AtomicFIFO
  StaleControllerConsistencyJob: AtomicFIFO
  StaleControllerConsistencyReplicaSet: AtomicFIFO
  StaleControllerConsistencyStatefulSet: AtomicFIFO
  StorageVersionAPI: APIServerIdentity
  TopologyAwareWorkloadScheduling: GenericWorkload
  UnknownVersionInteroperabilityProxy: APIServerIdentity
  UserNamespacesHostNetworkSupport: NodeDeclaredFeatures UserNamespacesSupport
  WindowsGracefulNodeShutdown: GracefulNodeShutdown
  WorkloadAwarePreemption: GangScheduling
  WorkloadWithJob: GenericWorkload`

let gates: ReadonlyMap<string, Gate> | undefined

/** Every gate by name. The lists are parsed at the first call. */
export function knownGates(): ReadonlyMap<string, Gate> {
  gates ??= new Map(
    [...LISTS, ...GONE_IN_1_37].flatMap(([gate, names]) =>
      names
        .trim()
        .split(/\s+/)
        .map((name) => [name, gate] as const),
    ),
  )
  return gates
}

/** Gates with the names of the gates they depend on. */
export function neededGates(): readonly (readonly [gate: string, needs: readonly string[]])[] {
  return NEEDS.trim()
    .split('\n')
    .map((line) => {
      const [name = '', needs = ''] = line.trim().split(': ')
      return [name, needs.split(' ')]
    })
}
