/**
 * Facts of servers that the course of a message may depend on besides the actor, by the unit behind which they hold. A
 * replay of a message that another server executed may differ for that reason. Timeline thread, but `factsOf` and
 * `differences`.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MeteringPolicy } from '../metering/index.ts';

/** Facts by their names. */
export type ServerFacts = Readonly<Record<string, string>>;

interface KnownServer {
  /** The server has executed what came behind this unit. */
  readonly behind: number;
  readonly facts: ServerFacts;
}

const PRIVATE = { mode: 0o600 };
/** The oldest are forgotten: nobody knows then who has executed their messages. */
const SERVERS_MAX = 256;

/** Returns the facts of this server. */
export function factsOf(version: string, policy: MeteringPolicy): ServerFacts {
  const { isEnabled, cyclesPerMessage, cyclesPer10Instructions, instructionLimit } = policy;
  return {
    svc: version,
    V8: process.versions.v8,
    'the processor': process.arch,
    'the price of a message': isEnabled ? `${cyclesPerMessage}, ${cyclesPer10Instructions} for 10 instructions` : '0',
    'the instruction limit': String(instructionLimit),
  };
}

export class KnownServers {
  readonly #path: string;
  #servers: readonly KnownServer[];

  constructor(root: string) {
    this.#path = join(root, 'servers.json');
    this.#servers = existsSync(this.#path) ? (JSON.parse(readFileSync(this.#path, 'utf8')) as KnownServer[]) : [];
  }

  /** Notes what executes the messages behind a unit. */
  begin(unit: number, facts: ServerFacts): void {
    const last = this.#servers.at(-1);
    if (last !== undefined && differences(last.facts, facts).length === 0) return;
    this.#servers = [...this.#servers, { behind: unit, facts }].slice(-SERVERS_MAX);
    writeFileSync(`${this.#path}.new`, JSON.stringify(this.#servers), PRIVATE);
    renameSync(`${this.#path}.new`, this.#path);
  }

  /** Returns what was other when a unit's messages were executed than it is now; undefined: nothing. */
  otherAt(unit: number): string | undefined {
    const then = this.#servers.findLast(({ behind }) => behind < unit);
    const now = this.#servers.at(-1);
    if (then === undefined || now === undefined) return 'nobody knows which version of svc it was';
    const other = differences(then.facts, now.facts);
    return other.length === 0 ? undefined : other.join(', ');
  }
}

/** Returns the facts that are others, as `V8 was 14.1 and is 14.2`. */
export function differences(then: ServerFacts, now: ServerFacts): readonly string[] {
  return [...new Set([...Object.keys(then), ...Object.keys(now)])]
    .filter((name) => then[name] !== now[name])
    .map((name) => `${name} was ${then[name] ?? 'not known'} and is ${now[name] ?? 'not known'}`);
}
