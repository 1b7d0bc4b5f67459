/**
 * The configuration of a server: one section for each plugin, by the plugin's name. Parsed and checked once
 * (`load.ts`), frozen, and handed out by the kernel section by section: a plugin sees only its own.
 */
import type { ProcessGroupOptions } from '../subsystems/cluster/group/process-group.ts';
import type { GroupMember } from '../subsystems/cluster/linked-cluster.ts';
import type { TablesKind } from '../subsystems/storage/open-tables.ts';
import type { AddressRange } from './address-ranges.ts';

interface HttpSection {
  /** The address to bind, resolved: an IPv4 or IPv6 literal. */
  readonly host: string;
  /** Port; 0 lets the system choose a free one. */
  readonly port: number;
  /** True in a shard process: it binds no address, and other servers alone reach it. */
  readonly isHidden?: boolean;
  /** Version for `GET /version` and the header `svc-version`. */
  readonly version: string;
  /** The commit, or `dev` if there is none. */
  readonly build: string;
  /** The actor whose website is at the root; undefined: the root shows the inspector. */
  readonly web: string | undefined;
  /** True if websites have host names. */
  readonly siteHosts: boolean;
  /**
   * Refuses requests from pages of other sites; `names` are the server's names besides those of loopback. Undefined:
   * off.
   */
  readonly browserGuard: { readonly names: readonly string[] } | undefined;
  /** True if no request may claim a caller (`x-caller`). */
  readonly refusesClaims: boolean;
  /** True if the token may stand in the path, in front of that of the agent interface. */
  readonly takesPathTokens: boolean;
  /** Reverse proxies whose word about a client's address counts. */
  readonly trustedProxies: readonly AddressRange[];
  /** Tells who changes something, in the file if one is named (an absolute path); undefined: off. */
  readonly audit: { readonly file: string | undefined } | undefined;
  /** Absolute path of the file with a line for each request; undefined: none is written. */
  readonly accessLog: string | undefined;
}

interface AuthSection {
  /** Bearer token that may do everything; undefined: there is none. */
  readonly token: string | undefined;
  /** Absolute path of the file of tokens with scopes; undefined: there is none. */
  readonly tokensFile: string | undefined;
  /** Issuers whose tokens are taken; undefined: none. */
  readonly jwt: JwtSection | undefined;
}

export interface JwtSection {
  /** As in `iss`, byte for byte. */
  readonly issuers: readonly string[];
  readonly audience: string;
  /** Absolute path of the file with the keys; undefined: the issuers are asked. */
  readonly keysFile: string | undefined;
  /** Scopes of whoever has a valid token. */
  readonly may: readonly string[];
  /** The `typ` that is asked for; undefined: whatever it is. */
  readonly typ: string | undefined;
}

export interface AgentsSection {
  /** Who may use the agent interface. */
  readonly mode: 'off' | 'guarded' | 'open';
  /** Milliseconds that a synchronous call of an agent waits for its answer. */
  readonly waitMs: number;
  /** The host's version, for agents that ask. */
  readonly version: string;
  /** Who may create canisters although it has not shown that it may use the server. */
  readonly creators: {
    /** True if whoever signs nothing may. */
    readonly areAnonymous: boolean;
    /** As text. */
    readonly principals: readonly string[];
    /** True if the certified data of what is created at `/api` is signed. */
    readonly certifies: boolean;
  };
  /** True if certificates of the Internet Computer prove senders. */
  readonly trustsIcRoot: boolean;
}

export interface LinkSection {
  /** Name or address at which other servers reach this one. */
  readonly host: string;
  /** Port; 0 lets the system choose a free one. */
  readonly port: number;
  readonly key: Uint8Array;
}

export interface ClusterSection {
  /** Undefined: the server is a service by itself. */
  readonly link: LinkSection | undefined;
  /** Processes of the node, with this one. */
  readonly processesMax: number;
  /** Processes of the node that wait for a shard. */
  readonly sparesMax: number;
  /** Set by `node-part.ts`: the processes that this one may start, or the one that has started it. */
  readonly processes?: ProcessGroupOptions;
  readonly member?: GroupMember;
}

interface MeteringSection {
  /** False with `--cycles 0` and `--no-metering`: only the instruction limit applies. */
  readonly isEnabled: boolean;
  /** Cycles of a new actor. */
  readonly startingCycles: bigint;
  /** Weighted instructions that a message may use. */
  readonly instructionLimit: number;
}

interface ExecutionSection {
  /** Threads that execute messages. */
  readonly executors: number;
  /** Bytes of stack that a guest may use. */
  readonly wasmStackBytes: number;
  /** Directory of instrumented modules in the state directory; undefined: there is none. */
  readonly cacheDirectory: string | undefined;
  /** Directory of instrumented modules in the user's cache folder; undefined: the user has none. */
  readonly sharedCacheDirectory: string | undefined;
  /** Bytes of memory that all actors may have together. */
  readonly memoryBytes: number;
}

interface ArchiveSection {
  /** Absolute path; undefined: there is no archive. */
  readonly directory: string | undefined;
  /** Seconds of work that the archive may lack. */
  readonly secs: number;
  /** Days that moments are kept; 0: for ever. */
  readonly days: number;
  /** Bytes that the archive may have; 0: no bound. */
  readonly bytes: number;
}

interface StorageSection {
  /** Absolute path of the state directory; undefined: everything lives in memory. */
  readonly directory: string | undefined;
  /** Store of its tables (`--tables`); undefined: the one that it has, or that the platform takes. */
  readonly tables: TablesKind | undefined;
  /** True if a commit waits for the disk (`--fsync always`). */
  readonly isSynced: boolean;
  readonly archive: ArchiveSection;
  /** True if timelines take its units. */
  readonly isTimed: boolean;
}

interface TimelineSection {
  /** Time for which messages are kept, in seconds; 0: there are no timelines. */
  readonly seconds: number;
  /** Bytes that all timelines may have. */
  readonly bytes: number;
  /** True if what the step log gives up has to be on the disk before. */
  readonly isSynced: boolean;
  /** The server's version and build. */
  readonly version: string;
}

interface ReplaySection {
  /** The server's version and build, for capsules. */
  readonly version: string;
}

interface SchedulerSection {
  /** Actors that may be live at once; 0: no limit. */
  readonly liveCap: number;
  /** Bytes that live actors may hold; 0: no limit. */
  readonly liveBytes: number;
  /** Milliseconds between heartbeats; 0: no heartbeats. */
  readonly heartbeatMs: number;
  /** Milliseconds between checks of global timers; 0: never. */
  readonly timerMs: number;
  /** Seconds for which answers are kept under clients' keys. */
  readonly idempotencySecs: number;
}

interface CanistersSection {
  /** Bytes of heap up to which a message is stored as the bytes that it changed; above, as its inputs. */
  readonly snapshotBelowBytes: number;
  /** True if not all actors may be live at once. */
  readonly hasLiveLimit: boolean;
  /** Seconds that replaying logs after a crash may take. */
  readonly replayBudgetSecs: number;
  /** Messages of each actor that `/history` shows; 0: none. */
  readonly historyEntries: number;
  /** True if files are watched: differences between manifest and state are installed and need not be reported. */
  readonly followsFiles: boolean;
  /** True if debug output of actors also goes to stderr. */
  readonly forwardDebugOutput: boolean;
}

interface ManifestSection {
  /** Absolute path of the manifest. */
  readonly file: string;
}

interface RehearsalSection {
  /** Policy for upgrades that turn answers of the last messages into faults. */
  readonly policy: 'refuse' | 'warn';
}

interface CompatibilitySection {
  /** Policy for upgrades that cannot be verified, or that break callers. */
  readonly policy: 'refuse' | 'warn';
  /** Absolute path of the compiler that checks stable variables; undefined: the server looks for one. */
  readonly program: string | undefined;
  /** Path of a `moc` beside the server; undefined: there is no such place. */
  readonly besideServer: string | undefined;
  /** PATH in which such compilers are looked for. */
  readonly searchPath: string | undefined;
}

interface CompilerSection {
  /** Directory of compiled modules in the state directory; undefined: there is none. */
  readonly cacheDirectory: string | undefined;
  /** Directory of compiled modules in the user's cache folder; undefined: the user has none. */
  readonly sharedCacheDirectory: string | undefined;
  /** Directory of compiled modules that came with the server; they are only read. */
  readonly shippedDirectories: readonly string[];
  /** Folders where mops keeps packages besides a project's own folder, and the value of `{MOPS_ENV}` in a path. */
  readonly mops: { readonly stores: readonly string[]; readonly environment: string };
  /** True if sources are compiled as they are saved (`--watch`): the compiler is kept ready for the next one. */
  readonly isKeptWarm: boolean;
  /** True if a compiler that is kept ready also keeps its memory from one source to the next. */
  readonly keepsMemory: boolean;
}

interface MopsClosureSection {
  /** Absolute path of the project; undefined: no file may be read. */
  readonly project: string | undefined;
}

interface ManagementSection {
  /** The host's version, for `subnet_info`. */
  readonly hostVersion: string;
  /** Milliseconds after which an outcall is abandoned. */
  readonly outcallTimeoutMs: number;
}

interface OutcallsSection {
  /** True if addresses that are not of the public internet are refused. */
  readonly denyPrivate: boolean;
  /** Absolute path of a file that outcalls are recorded to. */
  readonly recordFile: string | undefined;
  /** Absolute path of a recording that answers instead of the network. */
  readonly replayFile: string | undefined;
}

interface HotReloadSection {
  /** True if actors follow their files (`--watch`). */
  readonly isWatching: boolean;
}

/** Section of a plugin that has nothing to configure. */
type EmptySection = Readonly<Record<string, never>>;

export interface ServerConfig {
  readonly http: HttpSection;
  readonly auth: AuthSection;
  readonly agents: AgentsSection;
  readonly cluster: ClusterSection;
  readonly metering: MeteringSection;
  readonly execution: ExecutionSection;
  readonly storage: StorageSection;
  readonly timeline: TimelineSection;
  readonly replay: ReplaySection;
  readonly scheduler: SchedulerSection;
  readonly canisters: CanistersSection;
  readonly manifest: ManifestSection;
  readonly compatibility: CompatibilitySection;
  readonly rehearsal: RehearsalSection;
  readonly compiler: CompilerSection;
  readonly 'mops-closure': MopsClosureSection;
  readonly management: ManagementSection;
  readonly outcalls: OutcallsSection;
  readonly codec: EmptySection;
  readonly 'hot-reload': HotReloadSection;
}

/** Freezes the sections, too, so that no plugin can change another one's. */
export function freezeConfig(config: ServerConfig): ServerConfig {
  for (const section of Object.values(config)) Object.freeze(section);
  return Object.freeze(config);
}
