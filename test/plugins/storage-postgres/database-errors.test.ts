/** Errors after which a statement is tried again, and others: by the codes of PostgreSQL, sockets and Node. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ConnectionLost,
  isDamage,
  isTransient,
  startProblem,
} from '../../../plugins/storage-postgres/database-errors.ts';

const withCode = (code: string): Error => Object.assign(new Error(`with ${code}`), { code });

test('what a while mends is tried again: conflicts, resources, restarts, and a process that was stopped for long', () => {
  const codes = ['08006', '40001', '40P01', '53100', '53300', '55P03', '57014', '57P01', '57P03', '58030'];
  for (const code of [...codes, '25006', '25P03', '25P04']) assert.ok(isTransient(withCode(code)), code);
  for (const cause of [withCode('ECONNRESET'), withCode('CERT_HAS_EXPIRED'), new Error('Connection terminated')])
    assert.ok(isTransient(new ConnectionLost(cause)), cause.message);
});

test('what no try mends is not: rights, data, limits, damage', () => {
  const codes = ['22P02', '23505', '25P02', '42501', '42P01', '54000', '54001', '3D000', 'P0001', 'XX000'];
  for (const code of codes) assert.ok(!isTransient(withCode(code)) && !isDamage(withCode(code)), code);
  for (const code of ['XX001', 'XX002', '58P01']) {
    assert.ok(!isTransient(withCode(code)) && isDamage(withCode(code)), code);
    assert.equal(startProblem(withCode(code), 'postgres://x/y').code, 'state-corrupt');
  }
});

test('what ended the connection is tried again, whatever its code, but not where the database refuses who comes', () => {
  const ending = (code: string): Error => Object.assign(withCode(code), { severity: 'FATAL' });
  for (const code of ['XX000', '57P01', '53300', 'P0001']) assert.ok(isTransient(ending(code)), code);
  for (const code of ['28P01', '3D000', '42501', 'XX001']) assert.ok(!isTransient(ending(code)), code);
});

test('nor are bugs: whatever did not come from the database or its connection', () => {
  for (const error of [new RangeError('too large'), withCode('ERR_OUT_OF_RANGE'), withCode('EPIPE'), 'a text'])
    assert.ok(!isTransient(error), String(error));
});

test('whoever starts is told that the database cannot be reached, whatever broke the connection, and where that is', () => {
  const told = startProblem(new ConnectionLost(new Error('nothing was answered for 5 s')), 'postgres:///x').message;
  const expected =
    'the database localhost (or PGHOST)/x cannot be reached (nothing was answered for 5 s): is it running';
  assert.ok(told.startsWith(expected), told);
});
