import type { Canisters, HistoryEntry, HistoryKind, HistoryOutcome } from '../../canisters/index.ts';
import type { Codec } from '../../codec/index.ts';
import { ServerError } from '../../../kernel/index.ts';
import { principalToText } from '../../ic/index.ts';
import { candidPreview } from '../candid-preview.ts';
import { answerJsonArray } from '../json-array.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** Characters that an error repeats of an id. */
const ID_CHARACTERS_SHOWN = 40;
/** Messages whose end is no reply of the actor's. */
const REPLY_LESS: ReadonlySet<HistoryKind> = new Set(['install', 'upgrade', 'outcall']);

/** Outcomes as clients see them. A message that ended without an answer was rejected by the system (code 5). */
const OUTCOME_WORDS = {
  reply: 'reply',
  reject: 'reject',
  noReply: 'reject',
  trap: 'trap',
  limit: 'limit',
  outOfCycles: 'out_of_cycles',
} as const satisfies Record<HistoryOutcome, string>;

/**
 * `GET /history/<ACTOR>`: its newest messages, oldest first. `GET /x/messages/<MESSAGE>`: all that one message caused,
 * over all actors. Reading takes nothing away.
 */
export function historyHandlers(host: RouteHost): Pick<Handlers, 'GET /history/:actor' | 'GET /x/messages/:message'> {
  const { canisters, codec, jobs, responder } = host;
  const texts = { codec, canisters };
  return {
    async 'GET /history/:actor'(_request, response, { actor }) {
      const startedMs = jobs.nowMs();
      const canister = canisters.resolve(actor);
      await answerJsonArray(responder, response, canisters.historyOf(canister), (entry) =>
        JSON.stringify(shownEntry(entry, texts)),
      );
      jobs.done('history', canister, '', startedMs);
    },
    async 'GET /x/messages/:message'(_request, response, { message }) {
      const startedMs = jobs.nowMs();
      const messages = await canisters.messagesAround(message);
      if (messages === undefined) throw messageUnknown(message);
      await answerJsonArray(responder, response, messages, ({ canister, entry }) =>
        JSON.stringify({ actor: canister.idHex, name: canister.name, ...shownEntry(entry, texts) }),
      );
      jobs.done('messages', undefined, '', startedMs);
    },
  };
}

function messageUnknown(id: string): ServerError {
  const shown = JSON.stringify(id.slice(0, ID_CHARACTERS_SHOWN));
  return new ServerError(
    'missing',
    'message-unknown',
    `no history has a message ${shown}: it is still under way, or too old (--history), or of the server before its restart`,
  );
}

interface EntryTexts {
  readonly codec: Pick<Codec, 'previewText'>;
  readonly canisters: Pick<Canisters, 'messageIdOf'>;
}

/** Returns an entry as clients see it. */
export function shownEntry(entry: HistoryEntry, { codec, canisters }: EntryTexts): Readonly<Record<string, unknown>> {
  const { seq, timeMs, kind, method, caller, outcome, code, message, stack, instructions, cycles, ms } = entry;
  const { number, cause, root } = entry.trace;
  const hasReply = outcome === 'reply' && !REPLY_LESS.has(kind);
  return {
    seq,
    id: canisters.messageIdOf(number),
    cause: cause === 0 ? null : canisters.messageIdOf(cause),
    root: canisters.messageIdOf(root),
    time: new Date(timeMs).toISOString(),
    kind,
    method,
    caller: principalToText(caller),
    args: candidPreview(codec, entry.argument, entry.argument.length < entry.argumentBytes),
    reply: hasReply ? candidPreview(codec, entry.reply, entry.isReplyCut) : null,
    outcome: OUTCOME_WORDS[outcome],
    code: code ?? null,
    message: message ?? null,
    stack: stack?.split('\n') ?? null,
    instructions,
    cycles,
    ms: Math.round(ms * 1000) / 1000,
  };
}
