import type { HistoryEntry, HistoryOutcome } from '../../canisters/index.ts';
import type { Codec } from '../../codec/index.ts';
import { principalToText } from '../../ic/index.ts';
import { answerJsonArray } from '../json-array.ts';
import type { Handlers, RouteHost } from '../route.ts';

/**
 * Characters of an argument shown as text; its first 256 bytes may hold numbers that take ten times as many letters.
 */
const ARGUMENT_CHARACTERS_MAX = 1024;

/** Outcomes as clients see them. A message that ended without an answer was rejected by the system (code 5). */
const OUTCOME_WORDS = {
  reply: 'reply',
  reject: 'reject',
  noReply: 'reject',
  trap: 'trap',
  limit: 'limit',
  outOfCycles: 'out_of_cycles',
} as const satisfies Record<HistoryOutcome, string>;

/** `GET /history/<ACTOR>`: its newest messages, oldest first. Reading takes nothing away. */
export function historyHandlers(host: RouteHost): Pick<Handlers, 'GET /history/:actor'> {
  const { canisters, codec, jobs, responder } = host;
  return {
    async 'GET /history/:actor'(_request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      await answerJsonArray(responder, response, canisters.historyOf(canister), (entry) => entryText(entry, codec));
      jobs.done('history', canister, '', startedMs);
    },
  };
}

/** Returns an entry as clients see it. */
export function entryText(entry: HistoryEntry, codec: Pick<Codec, 'previewText'>): string {
  const { seq, timeMs, kind, method, caller, outcome, code, message, instructions, cycles, ms } = entry;
  return JSON.stringify({
    seq,
    time: new Date(timeMs).toISOString(),
    kind,
    method,
    caller: principalToText(caller),
    args: argumentText(entry, codec),
    outcome: OUTCOME_WORDS[outcome],
    code: code ?? null,
    message: message ?? null,
    instructions,
    cycles,
    ms: Math.round(ms * 1000) / 1000,
  });
}

/** Candid text where that is what it is, else hex; what is longer than what was kept ends with `…`. */
function argumentText({ argument, argumentBytes }: HistoryEntry, codec: Pick<Codec, 'previewText'>): string {
  const isCut = argument.length < argumentBytes;
  const text = codec.previewText(argument, ARGUMENT_CHARACTERS_MAX, isCut);
  return text ?? `${Buffer.from(argument).toString('hex')}${isCut ? '…' : ''}`;
}
