/**
 * Scopes: the names of what a token may do. Each row of the route table names the scope that it needs; a token has
 * scopes of the whole host (`metrics`), and scopes of one actor (`call:shop`) or of every actor (`call:*`). `*` alone
 * is everything, as with the one token of `--auth-token`.
 */
import { ServerError } from '../../kernel/index.ts';

/** Scopes that tell of the whole host, or take from it, and name no actor. */
const HOST_SCOPES = ['metrics', 'inspect', 'backup', 'closure'] as const;
/** Scopes that are given actor by actor. */
const ACTOR_SCOPES = [
  'call',
  'query',
  'watch',
  'describe',
  'logs',
  'history',
  'variables',
  'cycles',
  'topup',
  'settings',
  'configure',
  'snapshots',
  'time',
  'install',
  'upgrade',
  'stop',
  'delete',
  'move',
] as const;

export type HostScope = (typeof HOST_SCOPES)[number];
export type ActorScope = (typeof ACTOR_SCOPES)[number];

/** Actors that a scope names: a name, an id in hex or a principal. */
const ACTOR = /^[A-Za-z0-9_-]{1,64}$/;
const EVERY_ACTOR = '*';
/** Scopes of one token: more make each of its requests slow, because actors are looked up one by one. */
const SCOPES_MAX = 256;
const SHOWN_CHARACTERS_MAX = 80;
const LIKE_A_SCOPE = /^[a-z*-]{0,16}(?::.*)?$/;

/** The scopes of one token, parsed. */
export class Scopes {
  /** As they were written. */
  readonly texts: readonly string[];
  /** True if everything may be done: `*`. */
  readonly isWhole: boolean;
  readonly #host = new Set<string>();
  readonly #actors = new Map<string, string[]>();

  /** Throws ServerError `bad-scope` for a text that is no scope, one that is there twice, or more than 256. */
  constructor(texts: readonly string[]) {
    if (texts.length > SCOPES_MAX)
      throw badScope(`${texts.length} scopes are too many for one token, which has at most ${SCOPES_MAX}`);
    this.texts = [...texts];
    this.isWhole = texts.includes('*');
    for (const [at, text] of texts.entries()) {
      if (texts.indexOf(text) !== at) throw badScope(`${shown(text)} is there twice: remove one`);
      if (text !== '*') this.#add(text);
    }
  }

  #add(text: string): void {
    const [name = '', actor, ...more] = text.split(':');
    const isOfHost = includes(HOST_SCOPES, name);
    if (isOfHost && actor === undefined) {
      this.#host.add(name);
      return;
    }
    if (isOfHost) throw badScope(`${shown(text)} names an actor, and ${name} is of the whole host: write "${name}"`);
    if (!includes(ACTOR_SCOPES, name)) throw badScope(`${shown(text)} is no scope; ${known()}`);
    if (actor === undefined)
      throw badScope(`${shown(text)} lacks its actor: write "${name}:<ACTOR>", or "${name}:*" for every actor`);
    if (more.length > 0 || (actor !== EVERY_ACTOR && !ACTOR.test(actor)))
      throw badScope(`${shown(text)} names no actor: write a name, an id in hex, a principal or * behind "${name}:"`);
    const actors = this.#actors.get(name) ?? [];
    actors.push(actor);
    this.#actors.set(name, actors);
  }

  /** Returns true if a scope of the whole host is among them. */
  hasHost(scope: HostScope): boolean {
    return this.isWhole || this.#host.has(scope);
  }

  /** Returns true if the scope is there for every actor, also for those that come later. */
  hasEveryActor(scope: ActorScope): boolean {
    return this.isWhole || this.#actors.get(scope)?.includes(EVERY_ACTOR) === true;
  }

  /** Returns the actors for which the scope is there, as they were written. */
  actorsOf(scope: ActorScope): readonly string[] {
    return this.#actors.get(scope) ?? [];
  }
}

/** Returns true for a scope that names no actor. */
export function isHostScope(scope: HostScope | ActorScope): scope is HostScope {
  return includes(HOST_SCOPES, scope);
}

/** Returns the error of who asks for something that a scope of theirs would open: 403. */
export function scopeMissing(lacking: string): ServerError {
  return new ServerError(
    'forbidden',
    'scope-missing',
    `this token lacks the scope ${lacking}: ask whoever runs the server for it`,
  );
}

function includes(names: readonly string[], name: string): boolean {
  return names.includes(name);
}

function known(): string {
  const ofActors = ACTOR_SCOPES.map((name) => `${name}:<ACTOR>`);
  return `known are *, ${[...HOST_SCOPES, ...ofActors].join(', ')}`;
}

/** Shows a text that looks like a scope; any other might be a secret in the wrong place. */
function shown(text: string): string {
  return text.length <= SHOWN_CHARACTERS_MAX && LIKE_A_SCOPE.test(text) ? JSON.stringify(text) : 'a text';
}

function badScope(text: string): ServerError {
  return new ServerError('invalid', 'bad-scope', `scope ${text}`);
}
