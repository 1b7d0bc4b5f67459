/**
 * Reads the lists of queries that one stream shows: of a target, `q=<id>:<ACTOR>/<METHOD>:<JSON array>` again and
 * again; of a body, `{"queries":[{"id","actor","method","args"}]}`. What a query asks for is not looked at here.
 */
import { ServerError } from '../../../kernel/index.ts';
import { objectOf, parsedBody, refuseOthers } from '../lossless-json.ts';

/** Queries of one stream. */
const WATCHES_MAX = 100;
const ID = /^[\w.-]{1,64}$/;
/** One query's part of `Last-Event-ID`: its id, and the id of the last answer that the client had. */
const SEEN = /(?<![\w.-])([\w.-]{1,64}):([\da-f]{16})(?![\w.-])/g;

export interface ListedWatch {
  readonly id: string;
  /** Actor as it was written. */
  readonly actor: string;
  readonly method: string;
  /** JSON array of arguments. */
  readonly json: string;
}

/** Reads the values of `q`. Throws ServerError `invalid`, which names the value. */
export function watchesOfTarget(values: readonly string[]): readonly ListedWatch[] {
  const watches = values.map((value, at) => {
    const match = /^([^:]*):([^/:]*)\/([^:]*)(?::([^]*))?$/.exec(value);
    if (match === null) throw bad(`q ${at + 1}: expected <id>:<ACTOR>/<METHOD>:<JSON array of arguments>`);
    const [, id = '', actor = '', method = '', json = '[]'] = match;
    return { id, actor: decoded(actor, at), method: decoded(method, at), json };
  });
  return checked(watches, 'q');
}

function decoded(segment: string, at: number): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw bad(`q ${at + 1}: ACTOR and METHOD are percent-encoded UTF-8 once more, so that they may have any sign`);
  }
}

/** Reads a body. Throws ServerError `invalid`, which names the place. */
export function watchesOfBody(body: Uint8Array): readonly ListedWatch[] {
  const { queries, ...others } = objectOf(parsedBody(body, bad), 'the body', bad);
  refuseOthers(others, 'the body', 'queries', bad);
  if (!Array.isArray(queries)) throw bad('the body: expected {"queries":[{"id","actor","method","args"}]}');
  const watches = queries.map((query: unknown, at) => {
    const place = `queries[${at}]`;
    const { id, actor, method, args = [], ...rest } = objectOf(query, place, bad);
    refuseOthers(rest, place, 'id, actor, method, args', bad);
    if (typeof id !== 'string') throw bad(`${place}.id: expected a string`);
    if (typeof actor !== 'string') throw bad(`${place}.actor: expected a name, id or principal`);
    if (typeof method !== 'string') throw bad(`${place}.method: expected a name`);
    if (!Array.isArray(args)) throw bad(`${place}.args: expected an array of arguments`);
    return { id, actor, method, json: JSON.stringify(args) };
  });
  return checked(watches, 'queries');
}

function checked(watches: readonly ListedWatch[], place: string): readonly ListedWatch[] {
  if (watches.length === 0) throw bad(`${place}: expected at least one query`);
  if (watches.length > WATCHES_MAX)
    throw bad(`${place}: a stream shows ${WATCHES_MAX} queries at most, found ${watches.length}`);
  const ids = new Set<string>();
  for (const { id } of watches) {
    if (!ID.test(id)) throw bad(`${place}: an id has 1 to 64 letters, digits, "_", "-" or ".", found ${shown(id)}`);
    if (ids.has(id)) throw bad(`${place}: the id ${shown(id)} is there twice`);
    ids.add(id);
  }
  return watches;
}

/** Returns the ids of the answers that a client had, by the ids of their queries. */
export function seenAnswers(lastEventId: string | undefined): ReadonlyMap<string, string> {
  const seen = new Map<string, string>();
  for (const [, query = '', answer = ''] of lastEventId?.matchAll(SEEN) ?? []) seen.set(query, answer);
  return seen;
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 80));
}

function bad(message: string): ServerError {
  return new ServerError('invalid', 'bad-watch', message);
}
