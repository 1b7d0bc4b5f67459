import { ServerError } from '../../../kernel/index.ts';
import { type Canister, isInternalMethod } from '../../canisters/index.ts';
import { isDry, type MeteringPolicy } from '../../metering/index.ts';
import { answerJsonArray } from '../json-array.ts';
import type { Handlers, RouteHost } from '../route.ts';

const HEX_ID = /^[0-9a-f]{20}$/;
const LIMIT = /^[1-9][0-9]{0,6}$/;

/** Which actors a client wants to know of. */
interface Page {
  /** Id in hex: the actors behind it are shown. Undefined: all from the first one on. */
  readonly after: string | undefined;
  readonly limit: number;
  /** Part of the names to show, in lower case. */
  readonly name: string;
}

/**
 * `GET /inspect`: a snapshot of every actor, in order of their ids, or, with `after`, `limit` and `name`, of some of
 * them. The snapshot shows each actor as it is when its turn comes.
 */
export function inspectHandlers({
  canisters,
  clock,
  jobs,
  metering,
  responder,
}: RouteHost): Pick<Handlers, 'GET /inspect'> {
  return {
    async 'GET /inspect'(_request, response, _parameters, query) {
      const startedMs = jobs.nowMs();
      const chosen = chosenOf(canisters.list(), pageOf(query));
      const codeTexts = new Map<unknown, string>();
      const textOf = (canister: Canister): string => snapshotText(canister, metering.policy, clock.nowMs(), codeTexts);
      await answerJsonArray(responder, response, chosen, textOf);
      jobs.done('inspect', undefined, '', startedMs);
    },
  };
}

function pageOf(query: ReadonlyMap<string, string>): Page {
  const [after, limit = '9999999', name = ''] = [query.get('after'), query.get('limit'), query.get('name')];
  if (after !== undefined && !HEX_ID.test(after)) throw badParameter('after', 'the id of an actor in hex, 20 digits');
  if (!LIMIT.test(limit)) throw badParameter('limit', 'a number from 1 to 9999999');
  return { after, limit: Number(limit), name: name.toLowerCase() };
}

function badParameter(name: string, expected: string): ServerError {
  return new ServerError('invalid', 'bad-parameter', `query parameter ${name}: expected ${expected}`);
}

/** `canisters`: in order of their ids. */
function* chosenOf(canisters: readonly Canister[], { after, limit, name }: Page): Iterable<Canister> {
  let left = limit;
  for (let at = after === undefined ? 0 : firstAfter(canisters, after); at < canisters.length; at++) {
    const canister = canisters[at];
    if (canister === undefined || (name !== '' && !canister.name.toLowerCase().includes(name))) continue;
    yield canister;
    if (--left === 0) return;
  }
}

function firstAfter(canisters: readonly Canister[], idHex: string): number {
  let [low, high] = [0, canisters.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((canisters[middle]?.idHex ?? '') <= idHex) low = middle + 1;
    else high = middle;
  }
  return low;
}

function snapshotText(
  canister: Canister,
  policy: MeteringPolicy,
  nowMs: number,
  codeTexts: Map<unknown, string>,
): string {
  const text = JSON.stringify({
    id: canister.idHex,
    principal: canister.principal,
    name: canister.name,
    status: canister.status,
    live: canister.isLive,
    // A balance may pass 2^53: decimal text, as everywhere else.
    cycles: String(canister.balance),
    dry: isDry(policy, canister.balance),
    heapBytes: canister.heapBytes,
    stableBytes: canister.stableBytes,
    messages: canister.messages,
    traps: canister.traps,
    queued: canister.queued,
  });
  const idleMs = Math.max(0, Math.round(nowMs - canister.lastMessageMs));
  return `${text.slice(0, -1)},${codeText(canister, codeTexts)},"idleMs":${idleMs}}`;
}

/** Returns the text that actors of one module share; it is made once for all of them. */
function codeText(canister: Canister, texts: Map<unknown, string>): string {
  const { module, candid, candidProblem } = canister;
  // An interface belongs to one module; where there is none, the module alone decides.
  const key = candid ?? module;
  const known = texts.get(key);
  if (known !== undefined) return known;
  const text = JSON.stringify({
    moduleHash: module?.hash ?? null,
    methods: Array.from(module?.methods ?? [], ([name, kind]) => ({ name, kind })).filter(
      ({ name }) => !isInternalMethod(name),
    ),
    candid: candid?.text ?? null,
    candidProblem: candidProblem ?? null,
  }).slice(1, -1);
  texts.set(key, text);
  return text;
}
