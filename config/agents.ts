/** Flags for clients of the Internet Computer (`docs/agents.md`), and the section that they make. */
import * as defaults from './defaults.ts';
import { choice, integer, text, toggle } from './flag.ts';
import type { AgentsSection } from './schema.ts';

/** The flags, by their long names. */
export const AGENT_FLAGS = {
  agents: choice({
    group: 'agents',
    choices: ['off', 'guarded', 'open'],
    defaultValue: 'guarded',
    defaultText: 'guarded; off beside --web',
    summary:
      'Serve clients of the Internet Computer at /api (docs/agents.md). guarded: they need the token, where there is ' +
      'one; open: signatures alone say who calls.',
  }),
  'agent-wait-secs': integer({
    group: 'agents',
    placeholder: 'SECS',
    defaultValue: defaults.AGENT_WAIT_SECS,
    unit: 's',
    min: 1,
    max: 300,
    summary: 'Time that a synchronous call at /api waits for its answer; after it, the client asks for the status.',
  }),
  'agent-creators': text({
    group: 'agents',
    placeholder: 'WHO',
    defaultValue: undefined,
    isRepeatable: true,
    summary:
      'Principals that may create canisters at /api with --agents open; with "anonymous" those who sign nothing may, ' +
      'and manage what they created, on a loopback address only. May be repeated (docs/agents.md).',
  }),
  'agent-certificates': toggle({
    group: 'agents',
    summary:
      'Sign the certified data of canisters that are created at /api, as "certificate": "signed" of the manifest does ' +
      '(docs/agents.md).',
  }),
  'agent-path-token': toggle({
    group: 'agents',
    summary:
      'Take the token from the path as well, at /t/<TOKEN>/api, for agents that have no place for credentials ' +
      '(docs/agents.md).',
  }),
  'trust-ic-root': toggle({
    group: 'agents',
    summary:
      'Let canisters of the real Internet Computer sign for their users at /api, as its Internet Identity does ' +
      '(docs/agents.md).',
  }),
} as const;

/** Flags without effect where there is no agent interface. */
const OF_AGENTS = [
  'agent-wait-secs',
  'agent-creators',
  'agent-certificates',
  'agent-path-token',
  'trust-ic-root',
] as const;
/** The word of `--agent-creators` for whoever signs nothing. */
const NOBODY = 'anonymous';

interface AgentValues {
  readonly 'agent-certificates': boolean;
  readonly 'agent-creators': string | undefined;
  readonly 'trust-proxy': string | undefined;
}

/** Resolves with one sentence for each problem with the flags. `isLoopback`: only this machine reaches the server. */
export async function checkAgents(flags: AgentValues, isLoopback: boolean): Promise<string[]> {
  const named = listOf(flags['agent-creators']);
  if (named.length === 0) return [];
  // A start without the flag does not load it.
  const { parsePrincipal } = await import('../subsystems/ic/index.ts');
  const problems = named
    .filter((each) => each !== NOBODY && parsePrincipal(each) === undefined)
    .map((each) => `--agent-creators: ${JSON.stringify(each)} is no principal; name principals, or ${NOBODY}`);
  if (!named.includes(NOBODY)) return problems;
  const danger = 'whoever reaches the server could fill it';
  if (!isLoopback) problems.push(`--agent-creators ${NOBODY} needs a loopback address in --listen: ${danger}`);
  if (flags['trust-proxy'] !== undefined)
    problems.push(`--agent-creators ${NOBODY} and --trust-proxy contradict each other: behind a proxy ${danger}`);
  return problems;
}

/** Warns of flags that have no effect in that mode. */
export function warningsOfAgents(
  { flags, given }: { readonly flags: AgentValues; readonly given: ReadonlySet<string> },
  mode: AgentsSection['mode'],
): readonly string[] {
  if (mode === 'off')
    return OF_AGENTS.filter((name) => given.has(name)).map(
      (name) => `--${name} has no effect without --agents guarded or --agents open`,
    );
  const named = listOf(flags['agent-creators']);
  if (mode === 'open' || named.every((each) => each === NOBODY)) return [];
  return ['--agent-creators names principals, who may create canisters with --agents open alone'];
}

/** Returns the section of flags that have no problem. */
export function creatorsOf(
  flags: Pick<AgentValues, 'agent-creators' | 'agent-certificates'>,
): AgentsSection['creators'] {
  const named = listOf(flags['agent-creators']);
  const principals = named.filter((each) => each !== NOBODY);
  return { areAnonymous: named.includes(NOBODY), principals, certifies: flags['agent-certificates'] };
}

function listOf(value: string | undefined): readonly string[] {
  return value?.split(/[\s,]+/).filter((each) => each !== '') ?? [];
}
