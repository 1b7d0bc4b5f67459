/**
 * Invariants that hold at the end of a seed whatever has crashed: outcomes that clients were told, against the actors'
 * state.
 */
import assert from 'node:assert/strict';
import { memoryId, META, metaKey } from '../../../subsystems/storage/keyspace.ts';
import type { MemoryTables } from '../../../subsystems/storage/memory-tables.ts';
import { prefixEnd } from '../../../subsystems/storage/overlay-layer.ts';
import { ID_BYTES } from '../../../subsystems/storage/write-batch.ts';
import type { Life } from './life.ts';
import type { Sent } from './sent.ts';
import { FLAGS, type Kind, type Look, LOOK_BYTES, readLook } from './ledger-module.ts';
import { payload, payloadSeed, payloadSum } from './payload.ts';
import type { Ledger, LedgerEntry } from './ledger-state.ts';

const SYS_TRANSIENT = 2;
const CANISTER_REJECT = 4;
const SYS_UNKNOWN = 6;

interface Checked {
  /** Ledgers of the actors that live from beginning to end. */
  readonly ledgers: ReadonlyMap<string, Ledger>;
  readonly sent: readonly Sent[];
  /** True if executors have died: a canister that cannot be woken then is not called. */
  readonly hasDeaths: boolean;
}

/** Checks that calls between actors and messages of clients have happened wholly or not at all, and exactly once. */
export function checkMessages(checked: Checked): void {
  const { ledgers, sent } = checked;
  const found = new Map<string, LedgerEntry[]>();
  const keyOf = (actor: string, number: number, kind: Kind): string => `${actor} ${number} ${kind}`;
  for (const [actor, { entries }] of ledgers) {
    for (const entry of entries) {
      const key = keyOf(actor, entry.number, entry.kind);
      const same = found.get(key) ?? [];
      found.set(key, [...same, entry]);
      assert.equal(same.length, 0, `${key} is there once`);
      assert.notEqual(entry.number, 0, `${actor}: a timer fired that nobody had armed`);
      assert.notEqual(entry.kind, 'mangled', `${actor} got another payload than was sent with message ${entry.number}`);
    }
  }
  for (const message of sent)
    checkMessage(message, (actor, kind) => found.get(keyOf(actor, message.number, kind))?.[0], checked);
}

type Find = (actor: string, kind: Kind) => LedgerEntry | undefined;

function checkMessage(sent: Sent, find: Find, checked: Checked): void {
  const { number, actor, method, outcome } = sent;
  if (!checked.ledgers.has(actor) || method === 'look' || method === 'peek') return;
  const what = `message ${number}, ${method} of ${actor}, told ${toldOf(sent)}`;
  const kind = method === 'note' ? 'noted' : method === 'spread' ? 'spread' : method === 'arm' ? 'armed' : 'sent';
  const entry = find(actor, kind);
  if (outcome?.kind === 'reply' && method !== 'arm') assert.ok(entry, `${what}: it is there`);
  const isRefused = outcome !== undefined && outcome.kind !== 'reply';
  if (isRefused && (method === 'note' || method === 'spread'))
    assert.equal(entry, undefined, `${what}: nothing of it is there`);
  if (method === 'transfer' || method === 'ask') checkTransfer(sent, what, find, checked);
}

function checkTransfer(
  { actor, to, outcome, argument: { flags = 0, calleeFlags = 0 } }: Sent,
  what: string,
  find: Find,
  { ledgers, hasDeaths }: Checked,
): void {
  const done = find(actor, 'done');
  const failed = find(actor, 'failed');
  const cleaned = find(actor, 'cleaned');
  const isSent = find(actor, 'sent') !== undefined;
  const responses = [done, failed, cleaned].filter((each) => each !== undefined);
  assert.equal(responses.length, isSent ? 1 : 0, `${what}: one response for what was sent`);
  if (outcome?.kind === 'reply') assert.ok(done ?? failed, `${what}: its callback ran`);
  if (to === undefined || !ledgers.has(to)) return;
  const received = find(to, 'received');
  if (!isSent) assert.equal(received, undefined, `${what}: nothing was sent, and it has arrived`);
  const traps = (calleeFlags & (FLAGS.trapsHalfway | FLAGS.trapsAtEnd)) !== 0;
  if (traps) assert.equal(received, undefined, `${what}: its receiver trapped`);
  if (done !== undefined) assert.ok(received, `${what}: it has arrived`);
  if (failed === undefined) return;
  const code = Number(failed.amount);
  if (!hasDeaths)
    assert.notEqual(code, SYS_TRANSIENT, `${what}: calls between actors do not fail for the host's reasons`);
  if (code === SYS_UNKNOWN) assert.ok(flags & FLAGS.isBestEffort, `${what}: only best-effort calls time out`);
  else if (code !== CANISTER_REJECT)
    assert.equal(received, undefined, `${what}: rejected with ${code}, and it has arrived`);
}

/**
 * Checks that the state has the modules that actors use, and no others; `mayHaveMore`: modules that an earlier version
 * left are perhaps not deleted yet.
 */
export function checkModules(life: Life, { mayHaveMore = false } = {}): void {
  const stored = life.storedModules;
  const named = life.registry.list().flatMap(({ module }) => (module === undefined ? [] : [module.hash]));
  const used = [...new Set(named)].toSorted();
  const found = mayHaveMore ? stored.filter((hash) => used.includes(hash)) : stored;
  assert.deepEqual(found, used, 'the state has the modules of its actors');
}

/**
 * Checks that the tables have the current memory of each actor, and no other; `mayHaveCopies`: checkpoints of logs were
 * written to copies beside that. No writing ahead may be under way.
 */
export function checkMemories(tables: MemoryTables, ids: readonly Uint8Array[], mayHaveCopies: boolean): void {
  const nameOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
  const allowed = new Set<string>();
  for (const id of ids) {
    const copy = tables.get('meta', metaKey(META.copy, id))?.[0] ?? 0;
    for (const each of mayHaveCopies ? [0, 1] : [copy]) allowed.add(nameOf(memoryId(id, each)));
  }
  for (const family of ['heap', 'stable'] as const) {
    for (const [key] of tables.range(family, new Uint8Array(0), undefined)) {
      const memory = nameOf(key.subarray(0, ID_BYTES));
      assert.ok(allowed.has(memory), `the state has pages of ${family}/${memory}, which is no actor's memory`);
    }
  }
  const [ahead] = tables.range('meta', metaKey(META.ahead), prefixEnd(metaKey(META.ahead)));
  assert.equal(ahead, undefined, 'nothing is being written ahead');
}

/** Checks that nothing is gone that an answer has shown. */
export function checkLooks({ ledgers, sent }: Checked): void {
  for (const { number, actor, method, to, outcome, argument } of sent) {
    if (outcome?.kind !== 'reply') continue;
    // A payload comes last.
    const data = outcome.data.subarray(0, outcome.data.length - (argument.replyBytes ?? 0));
    // A composite query also returns the other actor's look.
    const own = data.subarray(data.length - LOOK_BYTES);
    checkLook(`message ${number} was shown of ${actor}`, readLook(own), ledgers.get(actor));
    if (method === 'peek' && to !== undefined && data.length > LOOK_BYTES) {
      checkLook(`message ${number} was shown of ${to}`, readLook(data), ledgers.get(to));
    }
  }
}

function checkLook(what: string, look: Look, ledger: Ledger | undefined): void {
  if (ledger === undefined) return;
  const last = ledger.entries[look.entries - 1];
  const found = last === undefined ? undefined : { number: last.number, kind: last.kind };
  assert.deepEqual(found, look.last, `${what}: entry ${look.entries}`);
  assert.ok(ledger.beats >= look.beats, `${what}: ${look.beats} beats`);
}

/** Checks that payloads have arrived byte by byte in both directions. */
export function checkPayloads(sent: readonly Sent[]): void {
  for (const { number, method, outcome, argument } of sent) {
    if (outcome?.kind !== 'reply') continue;
    const { payloadBytes = 0, replyBytes = 0 } = argument;
    const what = `message ${number}, ${method} with ${payloadBytes} bytes`;
    const payloadAt = outcome.data.length - replyBytes;
    assert.ok(
      payloadAt === LOOK_BYTES || (method === 'peek' && payloadAt === 2 * LOOK_BYTES),
      `${what}: its reply's length`,
    );
    const { gotBytes, gotSum } = readLook(outcome.data.subarray(payloadAt - LOOK_BYTES));
    const expected = payloadSum(payload(payloadSeed(number, 'argument'), payloadBytes));
    assert.deepEqual([gotBytes, gotSum], [payloadBytes, expected], `${what}: what has arrived of them`);
    const reply = payload(payloadSeed(number, 'reply'), replyBytes);
    assert.equal(
      Buffer.compare(outcome.data.subarray(payloadAt), reply),
      0,
      `${what}: the ${replyBytes} bytes of its reply`,
    );
  }
}

/** Checks that each armed timer has fired, once. */
export function checkTimers({ ledgers }: Checked, hasUpgrades: boolean): void {
  for (const [actor, { entries, armed }] of ledgers) {
    assert.equal(armed, 0, `${actor}: the timer of message ${armed} never fired`);
    const fired = new Set(entries.filter(({ kind }) => kind === 'fired').map(({ number }) => number));
    for (const { number, kind } of entries) {
      if (kind === 'armed' && !hasUpgrades)
        assert.ok(fired.has(number), `${actor}: the timer of message ${number} fired`);
    }
  }
}

function toldOf({ outcome }: Sent): string {
  if (outcome === undefined) return 'nothing';
  return outcome.kind === 'reply' ? 'a reply' : `${outcome.kind} ${outcome.code}: ${outcome.message}`;
}
