import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { handleSignals } from '../../kernel/index.ts';
import { FakeClock } from '../support/fake-clock.ts';

function scene(
  parent?: { readonly pid: number; readonly current: () => number },
  stopsOnHangup = true,
  isPassedOn = false,
) {
  const source = new EventEmitter();
  const clock = new FakeClock();
  const diary: string[] = [];
  const handler = handleSignals({
    source,
    clock,
    stopsOnHangup,
    isPassedOn,
    stop: (signal) => diary.push(`stop ${signal}`),
    force: (signal) => diary.push(`force ${signal}`),
    ...(parent && { parent }),
  });
  return { source, clock, diary, handler };
}

test('the first signal stops, a repeat within a second is ignored, a later one forces', () => {
  const { source, clock, diary } = scene();
  source.emit('SIGINT', 'SIGINT');
  source.emit('SIGINT', 'SIGINT');
  clock.advance(999);
  source.emit('SIGTERM', 'SIGTERM');
  assert.deepEqual(diary, ['stop SIGINT']);
  clock.advance(1);
  source.emit('SIGTERM', 'SIGTERM');
  assert.deepEqual(diary, ['stop SIGINT', 'force SIGTERM']);
  assert.deepEqual(source.eventNames(), [], 'where leaving hangs, a third one ends the process as the system does');
});

test('the end of a terminal stops, and never forces; where it is ignored nobody listens', () => {
  const { source, clock, diary } = scene();
  source.emit('SIGHUP', 'SIGHUP');
  clock.advance(10_000);
  source.emit('SIGHUP', 'SIGHUP');
  assert.deepEqual(diary, ['stop SIGHUP']);
  source.emit('SIGTERM', 'SIGTERM');
  assert.deepEqual(diary, ['stop SIGHUP', 'force SIGTERM']);
  assert.equal(scene(undefined, false).source.listenerCount('SIGHUP'), 0);
});

test('nobody listens any more once it is disposed of', () => {
  const { source, handler } = scene();
  assert.equal(source.listenerCount('SIGTERM'), 1);
  handler[Symbol.dispose]();
  assert.deepEqual(source.eventNames(), []);
});

test('a signal that is passed on once more is waited for, at most a second', async () => {
  const isSettled = async (handler: { settled(): Promise<void> }): Promise<boolean> => {
    let settled = false;
    void handler.settled().then(() => (settled = true));
    await new Promise(setImmediate);
    return settled;
  };
  const { source, handler } = scene(undefined, true, true);
  source.emit('SIGINT', 'SIGINT');
  assert.equal(await isSettled(handler), false);
  const waiting = handler.settled();
  source.emit('SIGINT', 'SIGINT');
  await waiting;
  const alone = scene(undefined, true, true);
  alone.source.emit('SIGINT', 'SIGINT');
  const bounded = alone.handler.settled();
  alone.clock.advance(999);
  assert.equal(await isSettled(alone.handler), false);
  alone.clock.advance(1);
  await bounded;
  // Nobody passes these on.
  const { source: terminated, handler: ended } = scene(undefined, true, true);
  terminated.emit('SIGTERM', 'SIGTERM');
  assert.equal(await isSettled(ended), true);
  const { source: plain, handler: direct } = scene();
  plain.emit('SIGINT', 'SIGINT');
  assert.equal(await isSettled(direct), true);
});

test('a parent that is gone is a first signal, and never a second one', () => {
  let pid = 17;
  const parent = { pid, current: () => pid };
  const { clock, diary, source, handler } = scene(parent);
  clock.advance(10_000);
  assert.deepEqual(diary, []);
  pid = 1;
  clock.advance(1_000);
  assert.deepEqual(diary, ['stop SIGTERM']);
  clock.advance(10_000);
  assert.deepEqual(diary, ['stop SIGTERM'], 'it stays away, and nobody has lost patience');
  source.emit('SIGINT', 'SIGINT');
  assert.deepEqual(diary, ['stop SIGTERM', 'force SIGINT']);
  handler[Symbol.dispose]();

  pid = 17;
  const signalled = scene(parent);
  signalled.source.emit('SIGTERM', 'SIGTERM');
  pid = 1;
  signalled.clock.advance(10_000);
  assert.deepEqual(signalled.diary, ['stop SIGTERM']);
  pid = 17;
  const disposed = scene(parent);
  disposed.handler[Symbol.dispose]();
  pid = 1;
  disposed.clock.advance(10_000);
  assert.deepEqual(disposed.diary, []);
});

test('with files to read again, SIGHUP reads them and never stops, also where it was ignored', () => {
  for (const stopsOnHangup of [true, false]) {
    const source = new EventEmitter();
    const diary: string[] = [];
    const note = (text: string) => (): void => void diary.push(text);
    const handler = handleSignals({
      source,
      clock: new FakeClock(),
      stopsOnHangup,
      reread: note('reread'),
      stop: note('stop'),
      force: note('force'),
    });
    source.emit('SIGHUP', 'SIGHUP');
    source.emit('SIGHUP', 'SIGHUP');
    assert.deepEqual(diary, ['reread', 'reread']);
    source.emit('SIGTERM', 'SIGTERM');
    assert.deepEqual(diary, ['reread', 'reread', 'stop']);
    handler[Symbol.dispose]();
    assert.deepEqual(source.eventNames(), []);
  }
});
