/**
 * Table of flags and the part of the server that reads each of them. If that part is replaced or off, its flags would
 * do nothing, so they are refused with the reason. A flag without a row here does not compile;
 * `test/config/flag-readers.test.ts` compares the rows with the sections.
 */
import type { FlagName, VARIABLES } from './flags.ts';
import type { ParsedFlags } from './parse-flags.ts';
import type { ConfiguredPlugin } from './plugin-options.ts';
import type { ServerConfig } from './schema.ts';

type PartName = keyof ServerConfig | 'gateway';

export interface FlagReader {
  /**
   * The part whose own implementation reads the flag; undefined: the program itself reads it, before there are parts.
   */
  readonly part: keyof ServerConfig | undefined;
  /** True if the flag also has its effect when that part is turned off. */
  readonly holdsWhenOff?: boolean;
  /** Another part without which the flag has no effect, whichever plugin provides it. */
  readonly needs?: PartName;
  /** Members that an object of that part may lack, and without which the flag has no effect. */
  readonly members?: readonly NeededMember[];
}

/** A member that a part may lack, such as `grantOf` of auth. */
interface NeededMember {
  readonly part: PartName;
  readonly member: string;
}

/** Need of a flag that was given: a plugin that takes the part's place is refused if its object lacks the member. */
export interface MemberNeed extends NeededMember {
  /** As the user wrote it. */
  readonly flag: string;
}

const member = (part: PartName, ...names: readonly string[]): readonly NeededMember[] =>
  names.map((name) => ({ part, member: name }));

const PROGRAM: FlagReader = { part: undefined };

export const FLAG_READERS: Readonly<Record<FlagName | keyof typeof VARIABLES, FlagReader>> = {
  help: PROGRAM,
  version: PROGRAM,
  'log-json': PROGRAM,
  config: PROGRAM,
  'print-config': PROGRAM,
  check: PROGRAM,
  capacity: PROGRAM,
  replay: PROGRAM,
  profile: PROGRAM,
  plugin: PROGRAM,
  'plugin-option': PROGRAM,
  manifest: { part: 'manifest' },
  watch: { part: 'hot-reload', needs: 'manifest' },
  listen: { part: 'http' },
  'trust-proxy': { part: 'http' },
  'access-log': { part: 'http' },
  audit: { part: 'http' },
  'audit-file': { part: 'http' },
  history: { part: 'canisters' },
  'auth-token': { part: 'auth' },
  'auth-token-file': { part: 'auth' },
  tokens: { part: 'auth', members: member('auth', 'grantOf', 'reread') },
  'jwt-issuer': { part: 'auth', members: member('auth', 'grantOf', 'prove') },
  'jwt-audience': { part: 'auth' },
  'jwt-keys': { part: 'auth', members: member('auth', 'reread') },
  'jwt-may': { part: 'auth' },
  'jwt-typ': { part: 'auth' },
  'make-token': PROGRAM,
  // The program decides before anything starts whether the address may be open, whichever plugin implements auth.
  insecure: PROGRAM,
  'browser-guard': { part: 'http' },
  'no-claims': { part: 'http' },
  agents: { part: 'agents' },
  'agent-wait-secs': { part: 'agents' },
  'agent-creators': { part: 'agents' },
  'agent-certificates': { part: 'agents', members: member('execution', 'certifiedBy') },
  'agent-path-token': { part: 'http', needs: 'agents' },
  'trust-ic-root': { part: 'agents' },
  'cluster-listen': { part: 'cluster', needs: 'storage' },
  'cluster-key-file': { part: 'cluster', needs: 'storage' },
  'cluster-processes': { part: 'cluster', needs: 'storage' },
  'cluster-spares': { part: 'cluster', needs: 'storage' },
  executors: { part: 'execution' },
  'memory-bytes': { part: 'execution' },
  'instruction-limit': { part: 'metering', holdsWhenOff: true },
  cycles: { part: 'metering' },
  verbose: { part: 'canisters' },
  'upgrade-policy': { part: 'compatibility' },
  'heartbeat-ms': { part: 'scheduler' },
  'timer-ms': { part: 'scheduler' },
  'live-cap': { part: 'scheduler' },
  'live-bytes': { part: 'scheduler' },
  'idempotency-secs': { part: 'scheduler' },
  state: { part: 'storage' },
  'snapshot-below': { part: 'canisters' },
  fsync: { part: 'storage' },
  tables: { part: 'storage' },
  'replay-budget-secs': { part: 'canisters' },
  archive: { part: 'storage' },
  'archive-secs': { part: 'storage' },
  'archive-days': { part: 'storage' },
  'archive-bytes': { part: 'storage' },
  timeline: { part: 'timeline', needs: 'storage', members: member('storage', 'actorUnits') },
  'timeline-bytes': { part: 'timeline' },
  'restore-archive': PROGRAM,
  until: PROGRAM,
  follow: PROGRAM,
  // A storage from outside restores its state itself.
  restore: PROGRAM,
  // Beside --no-outcalls the flag only causes a warning: both may be given together.
  'outcall-timeout-secs': { part: 'management' },
  'outcalls-record': { part: 'outcalls' },
  'outcalls-replay': { part: 'outcalls' },
  'outcalls-deny-private': { part: 'outcalls' },
  web: { part: 'http', needs: 'gateway' },
  'site-hosts': { part: 'http', needs: 'gateway' },
  project: { part: 'mops-closure', needs: 'compiler' },
  SVC_CLUSTER_KEY: { part: 'cluster', needs: 'storage' },
  SVC_WASM_STACK: { part: 'execution' },
  SVC_BIN: { part: 'compatibility' },
};

/** Returns one sentence for each given flag whose part is replaced or turned off. */
export function checkReaders(parsed: ParsedFlags, loaded: readonly ConfiguredPlugin[]): string[] {
  const { disabled } = parsed;
  const replaced = new Map(loaded.map((plugin) => [plugin.replaces, plugin]));
  const problems = readersOf(parsed).flatMap(({ shown, reader }) => problemsOf(shown, reader, replaced, disabled));
  const twice = [...disabled].flatMap((part) => {
    const plugin = replaced.get(part);
    return plugin === undefined ? [] : [`--no-${part} and ${flagOf(plugin)} contradict each other: drop one of them`];
  });
  return [...problems, ...twice];
}

/** Returns the members that the given flags need. */
export function neededMembers(parsed: ParsedFlags): MemberNeed[] {
  return readersOf(parsed).flatMap(({ name, shown, reader: { members = [] } }) =>
    parsed.flags[name] === 0 ? [] : members.map((each) => ({ ...each, flag: shown })),
  );
}

/** Returns the given flags with their readers, and how the user wrote them. */
function readersOf({ given, sources, flags }: ParsedFlags): { name: FlagName; shown: string; reader: FlagReader }[] {
  return (Object.entries(FLAG_READERS) as [FlagName, FlagReader][]).flatMap(([name, reader]) => {
    // A switch that is off needs no part.
    if (!(given.has(name) || sources.has(name)) || flags[name] === false) return [];
    return [{ name, reader, shown: given.has(name) ? `--${name}` : (sources.get(name) ?? name) }];
  });
}

function problemsOf(
  shown: string,
  { part, holdsWhenOff = false, needs }: FlagReader,
  replaced: ReadonlyMap<string | undefined, ConfiguredPlugin>,
  disabled: ReadonlySet<string>,
): string[] {
  const plugin = part === undefined ? undefined : replaced.get(part);
  if (plugin !== undefined && !plugin.wraps)
    return [
      `${shown} and ${flagOf(plugin)} contradict each other: only the server's own ${part} reads it; drop one of them`,
    ];
  return [holdsWhenOff ? undefined : part, needs]
    .filter((each) => each !== undefined && disabled.has(each))
    .map((each) => `${shown} and --no-${each} contradict each other: drop one of them`);
}

function flagOf({ capability, module }: ConfiguredPlugin): string {
  return `--plugin ${capability}=${module}`;
}
