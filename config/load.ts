/** Makes a checked, frozen configuration from a command line and an environment. */
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { platform } from 'node:process';
import type { Point } from '../subsystems/archive/index.ts';
import type { CheckerPlaces } from '../subsystems/compatibility/find-checker.ts';
import { cacheHome, mopsPackages } from './cache-home.ts';
import { parseAddressRanges } from './address-ranges.ts';
import { COMPILER_KEEPS_FROM_BYTES } from './defaults.ts';
import { FlagProblem, type NamedValue } from './flag.ts';
import { checkReaders, type MemberNeed, neededMembers } from './flag-readers.ts';
import { flagsByName } from './flags.ts';
import { checkerWarnings, flagWarnings } from './flag-warnings.ts';
import { checkAgents, creatorsOf } from './agents.ts';
import { checkJwt, jwtOf } from './jwt.ts';
import { type ListenAddress, type Lookup, resolveAddress, splitAddress } from './listen.ts';
import { memoryWarnings, usableMemoryBytes } from './machine-memory.ts';
import { type Environment, type ParsedFlags, parseFlags, variableSlips } from './parse-flags.ts';
import type { ConfiguredPlugin, PluginSections } from './plugin-options.ts';
import { freezeConfig, type ServerConfig } from './schema.ts';
import { readCluster } from './cluster.ts';
import { checkTask, type ReplayRequest, replayRequest, versionText } from './task-flags.ts';
import { readToken } from './token.ts';
import { parsePoint } from './until.ts';

/** Result of loading the plugins of `--plugin`. */
export interface LoadedPlugins<L extends ConfiguredPlugin> {
  readonly loaded: readonly L[];
  readonly problems: readonly string[];
}

export interface LoadOptions<L extends ConfiguredPlugin = ConfiguredPlugin> {
  /** Arguments without the interpreter and the script. */
  readonly argv: readonly string[];
  readonly environment: Environment;
  /** Plugin names that `--no-<plugin>` accepts. */
  readonly pluginNames: readonly string[];
  readonly version: string;
  readonly build: string;
  /** Directory that relative paths start from. */
  readonly directory: string;
  /** Directory of the server itself; undefined: nothing is looked for there. */
  readonly root?: string;
  readonly lookup?: Lookup;
  /** Loads the plugins that `--plugin` names. Not called if there are none. */
  readonly loadPlugins?: (
    requests: readonly { readonly capability: string; readonly module: string }[],
  ) => Promise<LoadedPlugins<L>>;
}

export interface LogConfig {
  readonly isJson: boolean;
  readonly isVerbose: boolean;
}

export interface RestoreConfig {
  readonly file: string;
  /** Undefined: a plugin's storage takes the backup. */
  readonly directory: string | undefined;
}

export interface RestoreArchiveConfig {
  /** Absolute path of the archive, or of a line in it. */
  readonly archive: string;
  /** Absolute path of the state directory. */
  readonly directory: string;
  readonly until: Point;
  /** True if what comes later is applied, too, and nothing is served. */
  readonly follows: boolean;
}

/** The task that the command line asks for. */
export type Request<L extends ConfiguredPlugin = ConfiguredPlugin> =
  | { readonly kind: 'version' }
  | { readonly kind: 'help'; readonly loaded: readonly L[]; readonly problems: readonly string[] }
  | { readonly kind: 'print'; readonly text: string }
  /** `--make-token`. */
  | { readonly kind: 'token'; readonly name: string }
  | { readonly kind: 'refused'; readonly problems: readonly string[] }
  | ReplayRequest
  | {
      readonly kind: 'serve';
      /** `check`: the work of a start is checked, and nothing started; `capacity`: the machine is measured. */
      readonly task: 'serve' | 'check' | 'capacity';
      readonly config: ServerConfig;
      /** Plugins from outside, and their sections of the configuration by their names. */
      readonly loaded: readonly L[];
      readonly sections: PluginSections['sections'];
      /** Names of plugins that are turned off. */
      readonly disabled: ReadonlySet<string>;
      readonly log: LogConfig;
      /** Backup to put into the state directory before the server starts; paths are absolute. */
      readonly restore: RestoreConfig | undefined;
      /** Archive from which the state directory is made before the server starts. */
      readonly restoreArchive: RestoreArchiveConfig | undefined;
      /** Members that plugins have to have for the given flags. */
      readonly needed: readonly MemberNeed[];
      /** Problems that do not keep the server from running. */
      readonly warnings: readonly string[];
    };

/** Compiled modules that come with the server: the site of a folder's, and in a clone the examples'. */
const SHIPPED_MODULES: readonly string[] = ['subsystems/assets/site/build', 'config/examples/build'];
const NO_SECTIONS: PluginSections = { sections: {}, values: [], problems: [] };

/** Loads the configuration. Operators' mistakes never reject: they resolve as `refused`, with every problem named. */
export async function loadConfig<L extends ConfiguredPlugin = ConfiguredPlugin>(
  options: LoadOptions<L>,
): Promise<Request<L>> {
  const parsed = await parse(options);
  const { flags, disabled } = parsed;
  if (flags.version && !flags.help) return { kind: 'version' };
  const { loaded, problems: pluginProblems } = await pluginsOf(flags.plugin, options);
  // A request for help is served, whatever else is on the command line.
  if (flags.help) return { kind: 'help', loaded, problems: pluginProblems };

  const newToken = flags['make-token'];
  if (newToken !== undefined && parsed.problems.length === 0) return { kind: 'token', name: newToken };
  if (flags.replay !== undefined) return replayRequest(parsed, flags.replay, options);

  const sections = await sectionsOf(loaded, parsed, options, pluginProblems.length > 0);
  const { secret: token, ...aboutToken } = readToken(parsed, options.directory);
  const { cluster, ...aboutCluster } = readCluster(parsed, options.directory);
  const problems = [
    ...parsed.problems,
    ...pluginProblems,
    ...sections.problems,
    ...aboutToken.problems,
    ...aboutCluster.problems,
    ...checkState(parsed, loaded),
    ...checkArchive(parsed, loaded, options.directory),
    ...checkReaders(parsed, loaded),
    ...checkOutcalls(parsed),
    ...checkJwt(parsed.flags),
    ...checkTask(parsed, loaded),
  ];
  const address = await resolveListen(flags.listen, options.lookup, problems);
  const hasToken = (token ?? flags.tokens ?? flags['jwt-issuer']) !== undefined || aboutToken.problems.length > 0;
  if (address !== undefined) {
    problems.push(...checkExposure(parsed, address, hasToken), ...(await checkAgents(flags, address.isLoopback)));
  }
  if (problems.length > 0 || address === undefined) return { kind: 'refused', problems };
  if (flags['print-config']) {
    const { printConfig } = await import('./print-config.ts');
    return { kind: 'print', text: printConfig(parsed, sections.values, { agents: agentModeOf(parsed) }) };
  }

  return {
    kind: 'serve',
    task: flags.check ? 'check' : flags.capacity ? 'capacity' : 'serve',
    disabled,
    log: { isJson: flags['log-json'], isVerbose: flags.verbose },
    config: buildConfig(parsed, { address, token, cluster }, options),
    loaded,
    sections: sections.sections,
    restore: restoreOf(parsed, options),
    restoreArchive: restoreArchiveOf(parsed, options),
    needed: neededMembers(parsed),
    warnings: [
      ...aboutToken.warnings,
      ...aboutCluster.warnings,
      ...flagWarnings(parsed, {
        isKept: parsed.flags.state !== undefined || durableStorage(loaded) !== undefined,
        agentMode: agentModeOf(parsed),
        hasToken,
      }),
      ...checkerWarnings(checkerPlaces(parsed, options)),
      ...variableSlips(options.environment, variablesOf(loaded)),
      ...memoryWarnings(),
    ],
  };
}

/** Parses the command line, and the file of `--config`, whose reader a start without the flag does not load. */
async function parse({ argv, environment, pluginNames, directory }: LoadOptions): Promise<ParsedFlags> {
  const parsed = parseFlags(argv, environment, pluginNames);
  const { config } = parsed.flags;
  if (config === undefined) return parsed;
  const { readConfigFile } = await import('./config-file.ts');
  return parseFlags(argv, environment, pluginNames, (path) =>
    readConfigFile(resolve(directory, path), path, { flags: flagsByName, pluginNames }),
  );
}

async function pluginsOf<L extends ConfiguredPlugin>(
  named: readonly NamedValue[],
  { loadPlugins }: LoadOptions<L>,
): Promise<LoadedPlugins<L>> {
  if (named.length === 0 || loadPlugins === undefined) return { loaded: [], problems: [] };
  return loadPlugins(named.map(({ name, value }) => ({ capability: name, module: value })));
}

/** Reads the plugins' options. If a plugin could not be loaded, its options are not known. */
async function sectionsOf(
  loaded: readonly ConfiguredPlugin[],
  parsed: ParsedFlags,
  { environment }: LoadOptions,
  isIncomplete: boolean,
): Promise<PluginSections> {
  if (isIncomplete || (loaded.length === 0 && parsed.flags['plugin-option'].length === 0)) return NO_SECTIONS;
  const { pluginSections } = await import('./plugin-options.ts');
  return pluginSections(loaded, parsed, environment);
}

function variablesOf(loaded: readonly ConfiguredPlugin[]): string[] {
  const options = loaded.flatMap(({ definition }) => Object.values(definition.options ?? {}));
  return options.flatMap(({ variable }) => variable ?? []);
}

function restoreOf({ flags: { restore, state } }: ParsedFlags, { directory }: LoadOptions): RestoreConfig | undefined {
  if (restore === undefined) return undefined;
  return { file: resolve(directory, restore), directory: state === undefined ? undefined : resolve(directory, state) };
}

function restoreArchiveOf({ flags }: ParsedFlags, { directory }: LoadOptions): RestoreArchiveConfig | undefined {
  const { 'restore-archive': archive, state, until, follow } = flags;
  const point = parsePoint(until);
  if (archive === undefined || state === undefined || typeof point === 'string') return undefined;
  const paths = { archive: resolve(directory, archive), directory: resolve(directory, state) };
  return { ...paths, until: point, follows: follow };
}

/** Returns the section of the agent interface. */
function agentsOf(parsed: ParsedFlags, version: string): ServerConfig['agents'] {
  const { flags } = parsed;
  const [waitMs, trustsIcRoot] = [flags['agent-wait-secs'] * 1000, flags['trust-ic-root']];
  return { mode: agentModeOf(parsed), waitMs, version, trustsIcRoot, creators: creatorsOf(flags) };
}

function buildConfig(
  parsed: ParsedFlags,
  { address, token, cluster }: Pick<ServerConfig, 'cluster'> & { address: ListenAddress; token: string | undefined },
  options: LoadOptions,
): ServerConfig {
  const { flags, variables, disabled } = parsed;
  const { version } = options;
  const state = flags.state === undefined ? undefined : resolve(options.directory, flags.state);
  return freezeConfig({
    http: httpOf(flags, address, options),
    auth: { token, tokensFile: fileOf(flags.tokens, options), jwt: jwtOf(flags, fileOf(flags['jwt-keys'], options)) },
    agents: agentsOf(parsed, version),
    cluster,
    metering: {
      isEnabled: flags.cycles > 0n && !disabled.has('metering'),
      startingCycles: flags.cycles,
      instructionLimit: flags['instruction-limit'],
    },
    execution: {
      executors: flags.executors,
      wasmStackBytes: variables.SVC_WASM_STACK,
      ...cachesOf('modules', state, options.environment),
      memoryBytes: flags['memory-bytes'],
    },
    ...keptOf(parsed, options, state),
    scheduler: {
      heartbeatMs: flags['heartbeat-ms'],
      timerMs: flags['timer-ms'],
      liveCap: flags['live-cap'],
      liveBytes: flags['live-bytes'],
      idempotencySecs: flags['idempotency-secs'],
    },
    canisters: {
      forwardDebugOutput: flags.verbose,
      snapshotBelowBytes: flags['snapshot-below'],
      hasLiveLimit: flags['live-cap'] > 0 || flags['live-bytes'] > 0,
      replayBudgetSecs: flags['replay-budget-secs'],
      historyEntries: flags.history,
      followsFiles: flags.watch,
    },
    manifest: { file: resolve(options.directory, flags.manifest) },
    compatibility: {
      policy: flags['upgrade-policy'],
      ...checkerPlaces(parsed, options),
      searchPath: options.environment['PATH'],
    },
    rehearsal: { policy: flags['upgrade-policy'] },
    compiler: {
      ...cachesOf('motoko', state, options.environment),
      shippedDirectories: shippedDirectories(options.root),
      mops: mopsOf(options.environment),
      isKeptWarm: flags.watch,
      keepsMemory: flags.watch && usableMemoryBytes() >= COMPILER_KEEPS_FROM_BYTES,
    },
    'mops-closure': { project: flags.project === undefined ? undefined : resolve(options.directory, flags.project) },
    codec: {},
    management: { hostVersion: version, outcallTimeoutMs: flags['outcall-timeout-secs'] * 1000 },
    outcalls: {
      denyPrivate: flags['outcalls-deny-private'],
      recordFile: fileOf(flags['outcalls-record'], options),
      replayFile: fileOf(flags['outcalls-replay'], options),
    },
    'hot-reload': { isWatching: flags.watch },
  });
}

/** Returns who may use the agent interface. Its paths are the website's, unless somebody asks for them by the flag. */
function agentModeOf({ flags, given, sources }: ParsedFlags): ServerConfig['agents']['mode'] {
  const isAsked = given.has('agents') || sources.has('agents');
  return flags.web === undefined || isAsked ? flags.agents : 'off';
}

/** Returns the sections of the state, and of the timelines in it. */
function keptOf(
  { flags, disabled }: ParsedFlags,
  options: LoadOptions,
  directory: string | undefined,
): Pick<ServerConfig, 'storage' | 'timeline' | 'replay'> {
  const isSynced = flags.fsync === 'always';
  const isTimed = flags.timeline > 0 && !disabled.has('timeline');
  const version = versionText(options);
  return {
    storage: { directory, tables: flags.tables, isSynced, archive: archiveOf(flags, options), isTimed },
    timeline: { seconds: flags.timeline, bytes: flags['timeline-bytes'], isSynced, version },
    replay: { version },
  };
}

function archiveOf(flags: ParsedFlags['flags'], options: LoadOptions): ServerConfig['storage']['archive'] {
  const { archive, 'archive-secs': secs, 'archive-days': days, 'archive-bytes': bytes } = flags;
  return { directory: fileOf(archive, options), secs, days, bytes };
}

function httpOf(
  flags: ParsedFlags['flags'],
  { host, port }: ListenAddress,
  options: LoadOptions,
): ServerConfig['http'] {
  const { version, build } = options;
  const isAudited = flags.audit || flags['audit-file'] !== undefined;
  return {
    host,
    port,
    version,
    build,
    web: flags.web,
    siteHosts: flags['site-hosts'],
    browserGuard: flags['browser-guard'] ? { names: [host, splitAddress(flags.listen).host] } : undefined,
    refusesClaims: flags['no-claims'],
    takesPathTokens: flags['agent-path-token'],
    trustedProxies: flags['trust-proxy'] === undefined ? [] : parseAddressRanges(flags['trust-proxy']),
    accessLog: fileOf(flags['access-log'], options),
    audit: isAudited ? { file: fileOf(flags['audit-file'], options) } : undefined,
  };
}

function fileOf(file: string | undefined, { directory }: LoadOptions): string | undefined {
  return file === undefined ? undefined : resolve(directory, file);
}

type CacheDirectories = Pick<ServerConfig['execution'], 'cacheDirectory' | 'sharedCacheDirectory'>;

function shippedDirectories(root: string | undefined): readonly string[] {
  return root === undefined ? [] : SHIPPED_MODULES.map((folder) => join(root, folder));
}

/** Returns the folder `name` of the state directory, and that of the user's cache folder. */
function cachesOf(name: string, state: string | undefined, environment: Environment): CacheDirectories {
  const below = (directory: string | undefined): string | undefined => directory && join(directory, name);
  return { cacheDirectory: below(state), sharedCacheDirectory: below(cacheHome(environment)) };
}

function mopsOf(environment: Environment): { readonly stores: readonly string[]; readonly environment: string } {
  const packages = mopsPackages(environment, platform);
  const { MOPS_ENV: name } = environment;
  return {
    stores: packages === undefined ? [] : [packages],
    environment: name === undefined || name === '' ? 'local' : name,
  };
}

async function resolveListen(
  listen: string,
  lookup: Lookup | undefined,
  problems: string[],
): Promise<ListenAddress | undefined> {
  try {
    return await resolveAddress(listen, lookup);
  } catch (error) {
    if (!(error instanceof FlagProblem)) throw error;
    problems.push(`--listen: ${error.message}`);
    return undefined;
  }
}

function durableStorage(loaded: readonly ConfiguredPlugin[]): ConfiguredPlugin | undefined {
  return loaded.find(({ replaces, definition }) => replaces === 'storage' && definition.isDurable === true);
}

/** Returns the programs that may compare stable signatures. */
function checkerPlaces(
  { variables: { SVC_BIN: program } }: ParsedFlags,
  { directory, root }: LoadOptions,
): Omit<CheckerPlaces, 'searchPath'> {
  return {
    program: program === undefined ? undefined : resolve(directory, program),
    besideServer: root === undefined ? undefined : join(root, 'moc'),
  };
}

/** Refuses flags that have no effect without a state directory. */
function checkState({ flags, given }: ParsedFlags, loaded: readonly ConfiguredPlugin[]): string[] {
  const storage = durableStorage(loaded);
  if (storage !== undefined) {
    if (flags.restore === undefined || storage.definition.restore !== undefined) return [];
    return [`--restore: plugin '${storage.definition.name}' cannot restore backups: start without --restore`];
  }
  if (flags.state !== undefined) return [];
  const forgetful = loaded.find(({ replaces, wraps }) => replaces === 'storage' && !wraps);
  return (
    [
      'live-cap',
      'live-bytes',
      'fsync',
      'tables',
      'replay-budget-secs',
      'restore',
      'archive',
      'restore-archive',
      'timeline',
    ] as const
  )
    .filter((name) => given.has(name) && !(flags[name] === 0 && (name.startsWith('live') || name === 'timeline')))
    .map((name) =>
      forgetful === undefined
        ? `--${name} needs --state DIR: without it everything lives in memory and nothing can be brought back`
        : `--${name}: plugin '${forgetful.definition.name}' is the storage and does not say that it is durable ` +
          '(isDurable, docs/plugins.md), so nothing can be brought back',
    );
}

/** Returns true if a path is that directory, or below it. */
function isWithin(path: string, directory: string, base: string): boolean {
  const from = relative(resolve(base, directory), resolve(base, path));
  return from === '' || !(from === '..' || from.startsWith(`..${sep}`) || isAbsolute(from));
}

/** Refuses flags of the archive where there is none, or where it is not this server's. */
function checkArchive({ flags, given }: ParsedFlags, loaded: readonly ConfiguredPlugin[], directory: string): string[] {
  const problems: string[] = [];
  const storage = durableStorage(loaded);
  if (storage !== undefined)
    for (const name of ['archive', 'restore-archive'] as const)
      if (flags[name] !== undefined)
        problems.push(
          `--${name}: plugin '${storage.definition.name}' keeps the state, and what it kept is brought back with its own ` +
            'means; for PostgreSQL that is its continuous archiving and point-in-time recovery (docs/postgres.md)',
        );
  if (storage !== undefined && flags.timeline > 0)
    problems.push(
      `--timeline: plugin '${storage.definition.name}' keeps the state and hands out no units, which timelines are made ` +
        'of: start with --state DIR in its place, or without --timeline',
    );
  if (flags.archive !== undefined && flags.state !== undefined && isWithin(flags.archive, flags.state, directory))
    problems.push(
      '--archive lies in the directory of --state: what ends the one would end the other; name one outside',
    );
  if (flags['restore-archive'] === undefined) {
    for (const name of ['until', 'follow'] as const)
      if (given.has(name) && flags[name] !== false) problems.push(`--${name} needs --restore-archive DIR`);
    return problems;
  }
  if (flags.restore !== undefined)
    problems.push('--restore and --restore-archive contradict each other: a state begins with one of them');
  if (flags.follow && flags.until !== 'latest')
    problems.push('--follow and --until contradict each other: what follows has no end');
  if (flags.follow && flags.archive !== undefined)
    problems.push(
      '--follow and --archive contradict each other: a copy that follows has nothing of its own to archive',
    );
  return problems;
}

function checkOutcalls({ flags }: ParsedFlags): string[] {
  return flags['outcalls-record'] !== undefined && flags['outcalls-replay'] !== undefined
    ? ['--outcalls-record and --outcalls-replay contradict each other: what is replayed is recorded already']
    : [];
}

function checkExposure({ flags, disabled }: ParsedFlags, address: ListenAddress, hasToken: boolean): string[] {
  if (address.isLoopback || (hasToken && !disabled.has('auth')) || flags.insecure) return [];
  return [
    `--listen ${flags.listen} can be reached from other machines, and without a token whoever reaches it controls this ` +
      'host process: give a token (--auth-token-file, SVC_TOKEN, --auth-token, --tokens or --jwt-issuer), ' +
      'listen on 127.0.0.1, or pass --insecure ' +
      'if the network is already under your control',
  ];
}
