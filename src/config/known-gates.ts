/**
 * The feature gates of Kubernetes, as kube-proxy registers them, with the gates that each depends on.
 * The lists hold v1.36.3's gates as that release has them, then the gates that v1.37.1 adds (pkg/features, with those of
 * component-base, apiserver, client-go, controller-manager and apiextensions). A gate of both keeps its state of v1.36.3, whose
 * messages are recorded; gates that only v1.36 has stay, so that a file of either release is accepted.
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
  APIServingWithRoutine AllAlpha AllowUnsafeMalformedObjectDeletion CBORServingAndStorage
  CPUManagerPolicyAlphaOptions CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
  CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
  ControllerManagerReleaseLeaderElectionLockOnExit CrossNamespaceVolumeDataSource DRAListTypeAttributes
  DRANodeAllocatableResources DRAResourcePoolStatus DRAWorkloadResourceClaims EventedPLEG GangScheduling
  GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
  InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace LoggingAlphaOptions
  ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
  PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
  PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
  ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
  TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
  VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob`,
  ],
  [
    { stage: 'beta', on: true, locked: false },
    `
  APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
  AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
  ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
  ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
  DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
  DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
  DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
  ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
  HostnameOverride InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
  InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
  KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot LoggingBetaOptions
  MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
  MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
  NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost
  PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
  PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
  ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
  RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
  SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
  StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
  StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
  StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
  StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
  TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
  UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList
  WatchListClient WindowsGracefulNodeShutdown`,
  ],
  [
    { stage: 'beta', on: false, locked: false },
    `
  AllBeta ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
  DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
  PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator`,
  ],
  [
    { stage: 'settled', on: true, locked: false },
    `
  AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
  MutatingAdmissionPolicy`,
  ],
  [
    { stage: 'settled', on: true, locked: true },
    `
  APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
  AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting
  CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
  DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
  ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
  JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
  KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
  LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
  NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
  PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
  PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
  RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization
  RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerQueueingHints
  SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
  ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
  StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
  SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
  VolumeAttributesClass WinDSR WinOverlay`,
  ],
  [
    { stage: 'deprecated', on: true, locked: false },
    `
  DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
  StorageNamespaceIndex`,
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

/** Gates that v1.37 adds. */
const ADDED_IN_1_37: typeof LISTS = [
  [
    { stage: 'alpha', on: false, locked: false },
    `
  APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields CompositePodGroup
  ConsistentListFromCacheSkipTimeoutFallback DRADerivedAttributes DRADeviceCompatibilityGroups
  DRAOptionalNodeOperations DRAPartitionableDevicesType DefaultPodSysctls EmptyDirVolumeMode EvictionRequestAPI
  GRPCContainerProbeTLS H2CContainerProbe InPlacePodVerticalScalingMemoryBackedVolumes
  InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath KubeProxyNFTablesLocalhostNodePorts
  KubeletAllocatedPodsEndpoint NodeLifecycleConditions PodGroupPreemptionPolicy SchedulerPreQueueingHints
  StatefulSetRecreateStrategy VolumeBindMountOptions`,
  ],
  [
    { stage: 'beta', on: true, locked: false },
    `
  EtcdRangeStream ExcludeAdmissionWebhookVirtualResources HPAGeneration HPAOptimizedSelectorStore
  HugepageAwareEviction NFTablesNetlink NodeControllerLeaseCircuitBreaker PodLevelResourcesFixDefaulting
  PodLevelResourcesFixKubeletQOSClass StaleControllerConsistencyHPA WatchListCompression
  WebhookRoundTripLoadBalancing`,
  ],
  [{ stage: 'beta', on: false, locked: false }, 'DRAFractionalCapacityRange'],
  [{ stage: 'deprecated', on: true, locked: false }, 'KubeProxyIPVS'],
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
  PodCertificateRequest: AuthorizeNodeWithSelectors
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
  StructuredAuthenticationConfigurationEgressSelector: StructuredAuthenticationConfiguration
  StructuredAuthenticationConfigurationJWKSMetrics: StructuredAuthenticationConfiguration
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
    [...LISTS, ...ADDED_IN_1_37].flatMap(([gate, names]) =>
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
