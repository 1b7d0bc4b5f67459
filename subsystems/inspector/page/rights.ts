/** Rights of a token, as `/x/me` tells them (docs/http.md, "Tokens with scopes"), and the same in plain words. */

/** Answer of `/x/me`. */
export interface ToldRights {
  /** Null: the server's one token, or a server that asks for none. */
  readonly name: string | null;
  readonly may: readonly string[];
  /** Principal as text; null: the anonymous one. */
  readonly caller: string | null;
  /** True if a request may claim a caller. */
  readonly claims: boolean;
}

/** Ways to write one actor. */
interface NamedActor {
  readonly name: string;
  readonly id: string;
  readonly principal: string;
}

/** Scopes of the whole host, with what they open. */
const HOST_WORDS = {
  inspect: 'see every actor, its messages and the figures of the host',
  metrics: 'read the metrics',
  backup: 'download all state, with what the host keeps secret',
  closure: 'read the Motoko sources of the project',
} as const;

/** Scopes of actors, with what they open; the actors stand behind it. */
const ACTOR_WORDS = {
  call: 'call methods of',
  query: 'make queries of',
  watch: 'follow live queries of',
  describe: 'read the interface of',
  logs: 'read what is printed by',
  history: 'read the messages of',
  variables: 'read the stable variables of',
  time: 'read the past of',
  cycles: 'read the balance of',
  topup: 'add cycles to',
  settings: 'read the settings of',
  configure: 'change the settings and open methods of',
  snapshots: 'take, load and delete snapshots of',
  install: 'install or reinstall',
  upgrade: 'replace the code of',
  stop: 'stop and start',
  delete: 'delete',
  move: 'move to another shard of the service',
} as const;

type HostScope = keyof typeof HOST_WORDS;
export type ActorScope = keyof typeof ACTOR_WORDS;

const EVERYTHING: ToldRights = { name: null, may: ['*'], caller: null, claims: true };

/** One thing that may be done, and to which actors. */
interface Permission {
  readonly words: string;
  /** Empty for what is of the whole host. */
  readonly actors: readonly string[];
}

export class Rights {
  readonly name: string | undefined;
  /** Principal as text; undefined: the anonymous one. */
  readonly caller: string | undefined;
  /** True if everything may be done. */
  readonly isWhole: boolean;
  /** True if calls may be made in the name of any caller. */
  readonly claims: boolean;
  readonly #may: ReadonlySet<string>;

  constructor({ name, may, caller, claims }: ToldRights = EVERYTHING) {
    this.name = name ?? undefined;
    this.caller = caller ?? undefined;
    this.#may = new Set(may);
    this.isWhole = this.#may.has('*');
    this.claims = claims;
  }

  /** Returns the scope of the whole host if it is lacking. */
  lacking(scope: HostScope): string | undefined {
    return this.isWhole || this.#may.has(scope) ? undefined : scope;
  }

  /** Returns the scope with the actor's name if it is lacking: `call:shop`. */
  lackingFor(scope: ActorScope, { name, id, principal }: NamedActor): string | undefined {
    const isThere = [name, id, principal, '*'].some((actor) => this.#may.has(`${scope}:${actor}`));
    return this.isWhole || isThere ? undefined : `${scope}:${name}`;
  }

  /** Returns the scope if it is there for no actor: `install:<name>`. */
  lackingForAll(scope: ActorScope): string | undefined {
    return this.isWhole || [...this.#may].some((text) => text.startsWith(`${scope}:`)) ? undefined : `${scope}:<name>`;
  }

  /** Returns the actors that scopes name, as they write them. */
  get actors(): readonly string[] {
    const named = [...this.#may].map((text) => text.split(':')[1] ?? '*');
    return [...new Set(named)].filter((actor) => actor !== '*');
  }

  /** Returns what may be done in plain words. A scope that the page does not know stands as it is. */
  get permissions(): readonly Permission[] {
    if (this.isWhole) return [{ words: 'do everything', actors: [] }];
    const found = new Map<string, string[]>();
    for (const text of this.#may) {
      const [scope = '', actor] = text.split(':');
      const words = wordsOf(scope) ?? text;
      const actors = found.get(words) ?? [];
      found.set(words, actors);
      if (actor !== undefined) actors.push(actor === '*' ? 'every actor' : actor);
    }
    return [...found].map(([words, actors]) => ({ words, actors }));
  }
}

function wordsOf(scope: string): string | undefined {
  return (Object.entries({ ...HOST_WORDS, ...ACTOR_WORDS }) as readonly (readonly [string, string])[]).find(
    ([name]) => name === scope,
  )?.[1];
}
