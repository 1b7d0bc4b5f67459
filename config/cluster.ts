/** The section of a service on several servers, from its flags (`cluster-flags.ts`). */
import { resolve } from 'node:path';
import { FlagProblem } from './flag.ts';
import { splitAddress } from './listen.ts';
import type { ParsedFlags } from './parse-flags.ts';
import type { ClusterSection, LinkSection } from './schema.ts';
import { readSecretFile } from './token.ts';

const KEY_CHARACTERS_MIN = 32;
/** Addresses that name every interface of a machine, and none that others could use. */
const EVERYWHERE: ReadonlySet<string> = new Set(['0.0.0.0', '::']);

interface FoundCluster {
  readonly cluster: ClusterSection;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** Reads the flags, and the key; `directory` is where relative paths start. */
export function readCluster(parsed: ParsedFlags, directory: string): FoundCluster {
  const { link, problems, warnings } = readLink(parsed, directory);
  const { 'cluster-processes': processesMax, 'cluster-spares': sparesMax, 'outcalls-record': record } = parsed.flags;
  if (link !== undefined && record !== undefined && processesMax > 1)
    problems.push(
      '--outcalls-record is for one process, and this node starts others: add --cluster-processes 1, or drop it',
    );
  const lost = (['cluster-processes', 'cluster-spares'] as const).filter((name) => parsed.given.has(name));
  if (parsed.flags['cluster-listen'] === undefined)
    problems.push(...lost.map((name) => `--${name} does nothing without --cluster-listen: add that, or drop it`));
  return { cluster: { link, processesMax, sparesMax }, problems, warnings };
}

interface FoundLink {
  /** Undefined: the server is a service by itself, or there is a problem. */
  readonly link: LinkSection | undefined;
  readonly problems: string[];
  readonly warnings: readonly string[];
}

function readLink({ flags, variables }: ParsedFlags, directory: string): FoundLink {
  const { 'cluster-listen': listen, 'cluster-key-file': file } = flags;
  const { SVC_CLUSTER_KEY: own } = variables;
  if (listen === undefined) {
    const isLost = file !== undefined || own !== undefined;
    return refused(isLost ? ['a key of the cluster does nothing without --cluster-listen: add that, or drop it'] : []);
  }
  if (file !== undefined && own !== undefined)
    return refused(['--cluster-key-file and SVC_CLUSTER_KEY contradict each other: drop one of them']);
  const found =
    file === undefined
      ? { secret: own, problems: [], warnings: [] }
      : readSecretFile(resolve(directory, file), `--cluster-key-file (${file})`, 'key');
  const problems = [...found.problems];
  if (found.secret === undefined && problems.length === 0)
    problems.push(
      '--cluster-listen needs the key that all servers of the service have: SVC_CLUSTER_KEY or --cluster-key-file FILE',
    );
  if (found.secret !== undefined && found.secret.length < KEY_CHARACTERS_MIN)
    problems.push(
      `the key of the cluster has ${found.secret.length} characters: ${KEY_CHARACTERS_MIN} or more are needed, ` +
        'such as openssl rand -hex 32 makes',
    );
  const address = addressOf(listen, problems);
  if (problems.length > 0 || address === undefined || found.secret === undefined) return refused(problems);
  return { link: { ...address, key: Buffer.from(found.secret) }, problems, warnings: found.warnings };
}

function addressOf(listen: string, problems: string[]): { host: string; port: number } | undefined {
  try {
    const address = splitAddress(listen);
    if (!EVERYWHERE.has(address.host)) return address;
    problems.push(
      `--cluster-listen ${listen} names every interface: name the address at which other servers reach this one`,
    );
  } catch (error) {
    if (!(error instanceof FlagProblem)) throw error;
    problems.push(`--cluster-listen: ${error.message}`);
  }
  return undefined;
}

function refused(problems: string[]): FoundLink {
  return { link: undefined, problems, warnings: [] };
}
