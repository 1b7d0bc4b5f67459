/** Lines of the prose log about jobs; the fields of the event are tested in calls.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LogFields, ServerError } from '../../../kernel/index.ts';
import { JobLog } from '../../../subsystems/http/job-log.ts';

const COUNTER = { name: 'counter', idHex: '80000000001000010101' };

function told(tell: (jobs: JobLog) => void): { readonly prose: string; readonly fields: LogFields } {
  const lines: { readonly prose: string; readonly fields: LogFields }[] = [];
  const nothing = (): void => undefined;
  const log = { debug: nothing, info: nothing, warn: nothing, error: nothing, announce: nothing };
  const event = (_: string, fields: LogFields, prose: string): void => void lines.push({ prose, fields });
  tell(new JobLog({ nowMs: () => 1001.5 }, { ...log, event }));
  const [line, ...more] = lines;
  assert.ok(line !== undefined && more.length === 0);
  return line;
}

test('a line names the actor and its id, once where they are the same', () => {
  assert.equal(
    told((jobs) => jobs.done('call', COUNTER, 'inc', 1000)).prose,
    `call counter ${COUNTER.idHex} inc ok 1.500 ms`,
  );
  const nameless = { ...COUNTER, name: COUNTER.idHex };
  assert.equal(told((jobs) => jobs.done('cycles', nameless, '', 1000)).prose, `cycles ${COUNTER.idHex} ok 1.500 ms`);
  assert.equal(told((jobs) => jobs.done('list', undefined, '', 1000)).prose, 'list ok 1.500 ms');
});

test('a failure says why, and the event has no field more than it had', () => {
  const outcome = { kind: 'trap', code: 5, message: 'boom', instructions: 1, charge: 0 };
  for (const [reason, text] of [
    [outcome, 'boom'],
    [new ServerError('invalid', 'no-actor', 'no actor nobody'), 'no actor nobody'],
    ['text', 'text'],
    [{ message: 'x'.repeat(10_000) }, `${'x'.repeat(200)} …`],
  ] as const) {
    const { prose, fields } = told((jobs) => jobs.failed('call', COUNTER, 'inc', 1000, reason));
    assert.equal(prose, `call counter ${COUNTER.idHex} inc failed 1.500 ms: ${text}`);
    assert.deepEqual(fields, { kind: 'call', actor: COUNTER.idHex, method: 'inc', ok: 'false', ms: '1.500' });
  }
});
