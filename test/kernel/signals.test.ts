import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { handleSignals } from '../../kernel/index.ts';
import { FakeClock } from '../support/fake-clock.ts';

function scene() {
  const source = new EventEmitter();
  const clock = new FakeClock();
  const diary: string[] = [];
  const handler = handleSignals({
    source,
    clock,
    stop: (signal) => diary.push(`stop ${signal}`),
    force: (signal) => diary.push(`force ${signal}`),
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
});

test('nobody listens any more once it is disposed of', () => {
  const { source, handler } = scene();
  assert.equal(source.listenerCount('SIGTERM'), 1);
  handler[Symbol.dispose]();
  assert.equal(source.listenerCount('SIGTERM') + source.listenerCount('SIGINT'), 0);
});
