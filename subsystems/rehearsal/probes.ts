/** Asks both copies what their queries without arguments say. */
import type { AnySizeTuple, CandidInterface } from '../codec/index.ts';
import { type ActorCopy, endOf, type PlayedEnd } from '../copies/index.ts';
import { ANONYMOUS, FULL_LIMIT } from '../ic/index.ts';
import { isSameEnd, shownEnd } from './compared-ends.ts';
import type { Probe } from './index.ts';

/** Methods that are asked: further ones are not. */
const PROBES_MAX = 32;
const NO_VALUES = Buffer.from('[]');

/** Resolves with what the methods of the old interface say that take no arguments. */
export async function probe(
  old: ActorCopy,
  fresh: ActorCopy,
  candid: CandidInterface | undefined,
): Promise<readonly Probe[]> {
  const probes: Probe[] = [];
  for (const { name, kind, args } of candid?.methods.values() ?? []) {
    if (probes.length === PROBES_MAX) break;
    if (kind !== 'query' || old.module.methods.get(name) !== 'query') continue;
    const argument = await encoded(args);
    if (argument === undefined) continue;
    const [was, is] = [await ask(old, name, argument), await ask(fresh, name, argument)];
    const isSame = await isSameEnd(candid, name, was, is);
    probes.push({ method: name, isSame, was: shownEnd(was), is: shownEnd(is) });
  }
  return probes;
}

/** Returns the argument without values; undefined: the method wants some. */
async function encoded(args: AnySizeTuple): Promise<Uint8Array | undefined> {
  try {
    return await args.encodeAnySize(NO_VALUES, { lossless: false });
  } catch {
    return undefined;
  }
}

async function ask(copy: ActorCopy, method: string, argument: Uint8Array): Promise<PlayedEnd> {
  const entry = copy.module.entries.get(`canister_query ${method}`);
  if (entry === undefined) {
    const message = `the code has no query ${method}`;
    return { outcome: 'missing', reply: undefined, message, instructions: 0 };
  }
  const context = { caller: ANONYMOUS, deadlineNs: 0n, canAnswer: true, cyclesAvailable: 0n, instructions: 0 };
  const bytes = new Uint8Array(argument);
  const { step } = await copy.run({ kind: 'query', entry, argument: bytes, context, instructionsMax: FULL_LIMIT });
  return endOf(step);
}
