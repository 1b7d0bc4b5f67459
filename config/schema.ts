/**
 * The configuration of a server: one section a plugin, by the plugin's name. Parsed and checked once (`load.ts`),
 * frozen, and handed out by the kernel section by section: a plugin sees its own and nothing else.
 */
export interface HttpSection {
  /** The address to bind, resolved: an IPv4 or IPv6 literal. */
  readonly host: string;
  /** 0 lets the system choose a free one. */
  readonly port: number;
  /** For `GET /version` and the header `svc-version`. */
  readonly version: string;
  /** The commit, or `dev` where there is none. */
  readonly build: string;
  /** The actor whose website is at the root; undefined: the inspector is. */
  readonly web: string | undefined;
  /** Whether websites have host names. */
  readonly siteHosts: boolean;
  /** Keeps pages of other sites out; the names of this server besides loopback's. Undefined: off. */
  readonly browserGuard: { readonly names: readonly string[] } | undefined;
}

export interface AuthSection {
  /** Undefined: nobody is asked for one. */
  readonly token: string | undefined;
}

export interface MeteringSection {
  /** False with `--cycles 0` and `--no-metering`: only the instruction limit holds. */
  readonly isEnabled: boolean;
  /** Cycles of a new actor. */
  readonly startingCycles: bigint;
  /** Weighted instructions a message may use. */
  readonly instructionLimit: number;
}

export interface ExecutionSection {
  /** Threads that execute messages. */
  readonly executors: number;
  /** Stack a guest may use. */
  readonly wasmStackBytes: number;
  /** Where instrumented modules are kept; undefined: nowhere. */
  readonly cacheDirectory: string | undefined;
  /** Memory that all actors may have together. */
  readonly memoryBytes: number;
}

export interface StorageSection {
  /** Absolute path of the state directory; undefined: everything lives in memory. */
  readonly directory: string | undefined;
  /** Whether a commit waits for the disk (`--fsync always`). */
  readonly isSynced: boolean;
}

export interface SchedulerSection {
  /** Actors that are live at most; 0: no limit. */
  readonly liveCap: number;
  /** Bytes that live actors hold at most; 0: no limit. */
  readonly liveBytes: number;
  /** 0: no heartbeats. */
  readonly heartbeatMs: number;
  /** How often global timers are looked at; 0: never. */
  readonly timerMs: number;
  /** Seconds for which answers are kept under clients' keys. */
  readonly idempotencySecs: number;
}

export interface CanistersSection {
  /** Bytes of heap up to which a message is stored as what it changed; above, as what it depended on. */
  readonly snapshotBelowBytes: number;
  /** Not all actors may be live at once. */
  readonly hasLiveLimit: boolean;
  /** Seconds that replaying logs may take after a crash. */
  readonly replayBudgetSecs: number;
  /** Messages of each actor that `/history` tells of; 0: none. */
  readonly historyEntries: number;
  /** Whoever watches the files takes up what differs: nobody has to be told. */
  readonly followsFiles: boolean;
  /** Whether debug output of actors also goes to stderr. */
  readonly forwardDebugOutput: boolean;
}

export interface ManifestSection {
  /** Absolute path. */
  readonly file: string;
}

export interface CompatibilitySection {
  /** What becomes of upgrades that nobody can verify, or that break callers. */
  readonly policy: 'refuse' | 'warn';
  /** Absolute path of the compiler that checks stable variables; undefined: one that is there already. */
  readonly program: string | undefined;
  /** Where a `moc` beside the server would be; undefined: nowhere. */
  readonly besideServer: string | undefined;
  /** PATH of such compilers. */
  readonly searchPath: string | undefined;
}

export interface CompilerSection {
  /** Where compiled modules are kept between runs; undefined where the user has no folder for such things. */
  readonly cacheDirectory: string | undefined;
  /** Where mops keeps packages besides a project's own folder, and what `{MOPS_ENV}` in a path stands for. */
  readonly mops: { readonly stores: readonly string[]; readonly environment: string };
  /** Sources are compiled as they are saved (`--watch`): the compiler is kept ready for the next. */
  readonly isKeptWarm: boolean;
  /** It keeps the memory that it needs for one for the next. */
  readonly keepsMemory: boolean;
}

export interface MopsClosureSection {
  /** Absolute path; undefined: no file may be read. */
  readonly project: string | undefined;
}

export interface ManagementSection {
  /** What `subnet_info` calls the host's version. */
  readonly hostVersion: string;
  /** After which an outcall is abandoned. */
  readonly outcallTimeoutMs: number;
}

export interface OutcallsSection {
  /** Refuse addresses that are not of the public internet. */
  readonly denyPrivate: boolean;
  /** Absolute path of a file that outcalls are recorded to. */
  readonly recordFile: string | undefined;
  /** Absolute path of a recording that answers instead of the network. */
  readonly replayFile: string | undefined;
}

export interface HotReloadSection {
  /** Actors follow their files (`--watch`). */
  readonly isWatching: boolean;
}

/** Has nothing to configure yet. */
export type EmptySection = Readonly<Record<string, never>>;

export interface ServerConfig {
  readonly http: HttpSection;
  readonly auth: AuthSection;
  readonly metering: MeteringSection;
  readonly execution: ExecutionSection;
  readonly storage: StorageSection;
  readonly scheduler: SchedulerSection;
  readonly canisters: CanistersSection;
  readonly manifest: ManifestSection;
  readonly compatibility: CompatibilitySection;
  readonly compiler: CompilerSection;
  readonly 'mops-closure': MopsClosureSection;
  readonly management: ManagementSection;
  readonly outcalls: OutcallsSection;
  readonly codec: EmptySection;
  readonly 'hot-reload': HotReloadSection;
}

/** Freezes the sections too, so that no plugin can change what another one reads. */
export function freezeConfig(config: ServerConfig): ServerConfig {
  for (const section of Object.values(config)) Object.freeze(section);
  return Object.freeze(config);
}
