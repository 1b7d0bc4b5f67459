/** Timelines on a real disk, over units at random: every message's state is found again, whatever happened since. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import { parseTimePoint, type TimelinePage } from '../../../subsystems/timeline/index.ts';
import { TimelineStore } from '../../../subsystems/timeline/timeline-store.ts';
import { ProofSeeds } from '../../support/proof-seeds.ts';
import { seeded } from '../../support/seeded.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { type Noted, TimedHost } from './timed-host.ts';

const PAGE = 4_096;
const BOUNDS = { seconds: 1e9, bytes: 2 ** 30, isSynced: false };

function hashesAt(store: TimelineStore, { id, seq }: Noted, host: TimedHost): Omit<Noted, 'id' | 'unit'> {
  const { sha256, balance, version, image, status, ...place } = store.stateAt(id, { kind: 'seq', seq }, host.timeMs);
  const globals = createHash('sha256').update(image.globals).digest('hex');
  return { seq: place.seq, ...sha256, balance, version, globals, status };
}

/** Compares every message that was noted; returns how many states were found. */
function compareAll(store: TimelineStore, host: TimedHost): number {
  let found = 0;
  for (const noted of host.noted) {
    const { id: _id, unit: _unit, ...wanted } = noted;
    let is: Omit<Noted, 'id' | 'unit'>;
    try {
      is = hashesAt(store, noted, host);
    } catch (error) {
      assert.ok(error instanceof ServerError && error.code === 'point-missing', String(error));
      continue;
    }
    assert.deepEqual(is, { ...wanted, status: wanted.status ?? is.status });
    found++;
  }
  return found;
}

test('the state after every message is found again: of messages of one unit, over stops and kills', async () => {
  const seeds = new ProofSeeds(8);
  for (const seed of seeds) {
    const random = seeded(seed);
    const directory = await temporaryDirectory();
    const host = new TimedHost(random, 5);
    let store = new TimelineStore(directory, BOUNDS);
    for (let round = 0; round < 40; round++) {
      host.give(
        store,
        Array.from({ length: 1 + random.below(4) }, () => host.next()),
      );
      if (random.oneIn(4)) store.sync();
      // A start hands over again what it finds in the log.
      if (random.oneIn(6)) host.give((store = new TimelineStore(directory, BOUNDS)), host.frames);
    }
    const found = compareAll(store, host);
    // Only messages of an actor's first units have no state: the base is read behind them.
    assert.ok(found > host.noted.length - 5 * 12, `${found} of ${host.noted.length}`);
  }
});

test('a message is told with the state before it and the state behind it', async () => {
  const host = new TimedHost(seeded(31), 3);
  const store = new TimelineStore(await temporaryDirectory(), BOUNDS);
  for (let unit = 0; unit < 60; unit++) host.give(store, [host.next()]);
  const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
  let found = 0;
  for (const { id, seq, unit, heap, balance, version } of host.noted) {
    const earlier = host.noted.find((noted) => noted.id === id && noted.seq === seq - 1);
    let message: ReturnType<TimelineStore['messageAt']>;
    try {
      message = store.messageAt(id, seq);
    } catch (error) {
      assert.ok(error instanceof ServerError && error.code === 'point-missing', String(error));
      continue;
    }
    const { before, after, entry } = message;
    assert.deepEqual([entry.seq, entry.unit, before.seq, after.unit], [seq, unit, seq - 1, unit]);
    assert.deepEqual([hashOf(before.image.heap), before.balance], [earlier?.heap, earlier?.balance]);
    const left = Buffer.from(before.image.heap);
    const { numbers, bytes } = after.changed.heap;
    for (const [at, page] of numbers.entries()) left.set(bytes.subarray(at * PAGE, (at + 1) * PAGE), page * PAGE);
    assert.deepEqual([hashOf(left), after.balance, after.version], [heap, balance, version]);
    found++;
  }
  assert.ok(found > host.noted.length - 3 * 12, `${found} of ${host.noted.length}`);
  const [actor] = host.actors;
  assert.ok(actor !== undefined);
  for (const seq of [1, actor.seq + 1, 1e9])
    assert.throws(() => store.messageAt(actor.id, seq), { code: 'point-missing' }, String(seq));
  // Messages of a unit that never came have made the state that the next one found.
  const seq = actor.seq;
  host.next();
  store.gap(host.unit);
  while (actor.seq < seq + 20) host.give(store, [host.next()]);
  const behind = store.page(actor.id, { from: { kind: 'seq', seq: seq + 1 }, to: undefined, limit: 1 }, host.timeMs);
  assert.equal(behind.entries[0]?.seq, seq + 1);
  assert.throws(() => store.messageAt(actor.id, seq + 1), { code: 'point-missing', message: /the state before/ });
  assert.equal(store.messageAt(actor.id, seq).after.seq, seq);
});

test('points of every kind name the same message', async () => {
  const host = new TimedHost(seeded(11), 1);
  const store = new TimelineStore(await temporaryDirectory(), BOUNDS);
  for (let unit = 0; unit < 60; unit++) host.give(store, [host.next()]);
  const last = host.noted.at(-1);
  const [actor] = host.actors;
  assert.ok(last !== undefined && actor !== undefined);
  const at = (text: string): unknown => store.placeOf(actor.id, parseTimePoint(text, '?at='), host.timeMs);
  const now = at('now');
  assert.deepEqual(now, at(`seq:${last.seq}`));
  assert.deepEqual(now, at(`unit:${last.unit + 5}`));
  assert.deepEqual(now, at(`time:${new Date(host.timeMs).toISOString()}`));
  assert.deepEqual(now, at('ago:0s'));
  const middle = store.placeOf(actor.id, { kind: 'seq', seq: 20 }, host.timeMs);
  assert.deepEqual(store.label(actor.id, 'here', { kind: 'seq', seq: 20 }, host.timeMs), middle);
  assert.deepEqual(at('label:here'), middle);
  assert.throws(() => store.label(actor.id, 'here', { kind: 'now' }, host.timeMs), { code: 'label-exists' });
  assert.throws(() => store.label(actor.id, '../x', { kind: 'now' }, host.timeMs), { code: 'label-bad' });
  assert.throws(() => at('seq:100000'), { code: 'point-missing' });
  assert.throws(() => at('unit:0'), { code: 'point-bad' });
  assert.throws(() => at('label:there'), { code: 'label-missing', message: /this actor has here/ });
  store.unlabel(actor.id, 'here');
  assert.throws(() => at('label:here'), { code: 'label-missing', message: /this actor has none/ });
});

test('pages have every message once, in order, from any message on', async () => {
  const host = new TimedHost(seeded(5), 2);
  const store = new TimelineStore(await temporaryDirectory(), BOUNDS);
  for (let unit = 0; unit < 500; unit++) host.give(store, [host.next()]);
  const [actor] = host.actors;
  assert.ok(actor !== undefined);
  const seen: number[] = [];
  for (let from: number | undefined = 1; from !== undefined;) {
    const asked = { from: { kind: 'seq', seq: from } as const, to: undefined, limit: 100 };
    const page = store.page(actor.id, asked, host.timeMs);
    assert.ok(page.entries.length <= 100);
    seen.push(...page.entries.map(({ seq }) => seq));
    from = page.next;
  }
  assert.deepEqual(
    seen,
    Array.from({ length: actor.seq }, (_, at) => at + 1),
  );
  const part = { from: { kind: 'seq', seq: 300 } as const, to: { kind: 'seq', seq: 303 } as const, limit: 100 };
  assert.deepEqual(
    store.page(actor.id, part, host.timeMs).entries.map(({ seq }) => seq),
    [300, 301, 302, 303],
  );
});

test('a page has some megabytes of arguments, or the beginning of each that is asked for', async () => {
  const argument = Buffer.alloc(1_000_000, 7);
  const host = new TimedHost(seeded(8), 1, { isNoting: false, argument });
  const store = new TimelineStore(await temporaryDirectory(), BOUNDS);
  for (let unit = 0; unit < 20; unit++) store.take(host.next([0]), host.timeMs);
  const [actor] = host.actors;
  assert.ok(actor !== undefined && actor.seq > 30);
  const { id } = actor;
  const seen: number[] = [];
  for (let seq: number | undefined = 1, pages = 0; seq !== undefined; pages++) {
    const asked = { from: { kind: 'seq', seq } as const, to: undefined, limit: 1_000 };
    const { entries, next }: TimelinePage = store.page(id, asked, host.timeMs);
    assert.ok(entries.length <= 9, `${entries.length} megabytes`);
    for (const { note, isArgumentCut } of entries)
      assert.ok(!isArgumentCut && Buffer.compare(note.argument, argument) === 0);
    seen.push(...entries.map((entry) => entry.seq));
    seq = next;
  }
  assert.deepEqual(
    seen,
    [...Array(actor.seq).keys()].map((at) => at + 1),
  );
  const asked = { from: undefined, to: undefined, limit: 1_000, argumentBytesMax: 100 };
  const { entries, next } = store.page(id, asked, host.timeMs);
  assert.equal(next, undefined);
  assert.ok(entries.every(({ note, isArgumentCut }) => isArgumentCut && note.argument.length === 100));
  assert.ok(
    entries.every(({ note }) => note.argument.buffer.byteLength === 100),
    'nothing else goes with them',
  );
});

test('a file that is cut at any byte, as a kill leaves it, goes on with the units of the log', async () => {
  const host = new TimedHost(seeded(3), 1);
  const directory = await temporaryDirectory();
  const store = new TimelineStore(directory, BOUNDS);
  for (let unit = 0; unit < 6; unit++) host.give(store, [host.next()]);
  const [actor] = host.actors;
  assert.ok(actor !== undefined);
  const path = join(directory, 'timeline', Buffer.from(actor.id).toString('hex'), '00000001.tl');
  const whole = readFileSync(path);
  const random = seeded(4);
  for (let cut = 0; cut < whole.length; cut += 1 + random.below(40)) {
    writeFileSync(path, whole);
    truncateSync(path, cut);
    const again = new TimelineStore(directory, BOUNDS);
    host.give(again, host.frames);
    assert.ok(compareAll(again, host) > 0 || cut < 200, `cut at ${cut}`);
    const now = again.stateAt(actor.id, { kind: 'now' }, host.timeMs);
    assert.equal(now.sha256.heap, host.noted.at(-1)?.heap, `cut at ${cut}`);
    const asked = { from: undefined, to: undefined, limit: 1_000 };
    const { entries }: TimelinePage = again.page(actor.id, asked, host.timeMs);
    assert.deepEqual(
      entries.map(({ seq, unit }) => [seq, unit]),
      host.noted.map(({ seq, unit }) => [seq, unit]),
      `cut at ${cut}`,
    );
    assert.equal(readdirSync(dirname(path)).filter((name) => name.endsWith('.tl')).length, 1, `cut at ${cut}`);
  }
});

test('a disk that is full is told, and behind the gap the timeline begins anew', async () => {
  const host = new TimedHost(seeded(9), 2);
  const directory = await temporaryDirectory();
  let room = 30_000;
  const store = new TimelineStore(directory, BOUNDS, (descriptor, bytes) => {
    const written = bytes.subarray(0, Math.max(0, room));
    room -= bytes.length;
    writeSync(descriptor, written);
    if (written.length < bytes.length) throw new Error('ENOSPC: no space left on device');
  });
  let failures = 0;
  for (let unit = 0; unit < 200; unit++) {
    try {
      host.give(store, [host.next()]);
    } catch (error) {
      assert.match(String(error), /ENOSPC/);
      failures++;
      if (failures === 3) room = Infinity;
    }
  }
  assert.equal(failures, 3);
  // Messages before the gap have other numbers in the timeline than the actor gave them: only the newest are compared.
  for (const { id } of host.actors) {
    const last = host.noted.findLast((noted) => noted.id === id);
    assert.equal(store.stateAt(id, { kind: 'now' }, host.timeMs).sha256.heap, last?.heap);
  }
});

test('a flipped bit is told with its place, and points behind the next base are read', async () => {
  const host = new TimedHost(seeded(21), 1);
  const directory = await temporaryDirectory();
  const store = new TimelineStore(directory, { ...BOUNDS, bytes: 2 ** 20 });
  for (let unit = 0; unit < 800; unit++) host.give(store, [host.next()]);
  const [actor] = host.actors;
  assert.ok(actor !== undefined);
  const folder = join(directory, 'timeline', Buffer.from(actor.id).toString('hex'));
  const [oldest = ''] = readdirSync(folder).filter((name) => name.endsWith('.tl'));
  const bytes = readFileSync(join(folder, oldest));
  const at = Math.floor(bytes.length / 2);
  bytes[at] = (bytes[at] ?? 0) ^ 4;
  writeFileSync(join(folder, oldest), bytes);
  const again = new TimelineStore(directory, { ...BOUNDS, bytes: 2 ** 20 });
  const last = host.noted.at(-1);
  assert.equal(again.stateAt(actor.id, { kind: 'now' }, host.timeMs).sha256.heap, last?.heap);
  const all = { from: undefined, to: undefined, limit: 1_000 };
  assert.throws(() => again.page(actor.id, all, host.timeMs), { code: 'timeline-damaged', message: /at byte \d+/ });
});

for (const count of [1, 200])
  test(`the bound of bytes holds with ${count} busy actors, and the newest states stay`, async () => {
    const host = new TimedHost(seeded(count), count, { isNoting: false });
    const directory = await temporaryDirectory();
    const bounds = { ...BOUNDS, bytes: 4 * 2 ** 20 };
    const store = new TimelineStore(directory, bounds);
    for (let round = 0; round < (count === 1 ? 12_000 : 120); round++) {
      host.give(store, [host.next()]);
      assert.ok(store.figures.bytes < bounds.bytes + 2 ** 20, `${store.figures.bytes}`);
    }
    const root = join(directory, 'timeline');
    const sizes = readdirSync(root, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const bytes = sizes.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
    assert.ok(bytes < bounds.bytes + 2 ** 20, `${bytes} bytes on the disk`);
    if (count === 1)
      assert.equal(
        store.stateAt(host.actors[0]?.id ?? new Uint8Array(10), { kind: 'now' }, 0).seq,
        host.actors[0]?.seq,
      );
  });

test('the state before a gap is kept where a base has units of others besides', async () => {
  const random = seeded(43);
  for (let round = 0; round < 10; round++) {
    const host = new TimedHost(random, 2);
    const store = new TimelineStore(await temporaryDirectory(), BOUNDS);
    const [one] = host.actors;
    assert.ok(one !== undefined);
    while (one.seq === 0) store.take(host.next(), host.timeMs);
    const { seq } = one;
    // While the base is read, others change.
    const late = Array.from({ length: 3 }, () => host.next([1]));
    store.base(one.id, host.imageOf(one.id), host.timeMs);
    store.take(Buffer.concat(late), host.timeMs);
    const asked = (): string => store.stateAt(one.id, { kind: 'seq', seq }, host.timeMs).sha256.heap;
    const wanted = host.noted.find((noted) => noted.id === one.id && noted.seq === seq)?.heap;
    assert.equal(asked(), wanted);
    host.next();
    store.take(host.next([0, 1]), host.timeMs);
    assert.equal(asked(), wanted, 'behind it is a gap');
  }
});

test('a base that is too large is asked for once a minute, not whenever units come', async () => {
  const host = new TimedHost(seeded(41), 1);
  const store = new TimelineStore(await temporaryDirectory(), { ...BOUNDS, bytes: 2 ** 18 });
  const askedMs: number[] = [];
  for (let unit = 0; unit < 200; unit++) {
    for (const id of store.take(host.next(), host.timeMs).bases) {
      askedMs.push(host.timeMs);
      store.base(id, host.imageOf(id), host.timeMs);
    }
  }
  assert.ok(askedMs.length > 1, 'the actor may have become smaller');
  for (const [at, ms] of askedMs.entries()) assert.ok(ms - (askedMs[at - 1] ?? 0) >= 60_000);
});

test('what is too old goes, except what a label needs', async () => {
  const host = new TimedHost(seeded(31), 1, { isNoting: false });
  const store = new TimelineStore(await temporaryDirectory(), { ...BOUNDS, seconds: 600 });
  const [actor] = host.actors;
  assert.ok(actor !== undefined);
  const id = actor.id;
  for (let unit = 0; unit < 2_000; unit++) host.give(store, [host.next()]);
  const first = store.placeOf(id, { kind: 'start' }, host.timeMs);
  assert.ok(host.timeMs - first.timeMs < 600_000 * 1.6, 'messages that are too old are kept');
  assert.ok(host.timeMs - first.timeMs > 600_000 * 0.9, 'messages go too early');
  store.label(id, 'kept', { kind: 'start' }, host.timeMs);
  for (let unit = 0; unit < 2_000; unit++) host.give(store, [host.next()]);
  assert.equal(store.placeOf(id, { kind: 'label', label: 'kept' }, host.timeMs).seq, first.seq);
});
