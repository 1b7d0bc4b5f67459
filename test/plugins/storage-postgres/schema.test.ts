/** The version of the schema, and the format of the state for which it stands. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCHEMA_VERSION } from '../../../plugins/storage-postgres/schema.ts';
import { FORMAT } from '../../../subsystems/storage/state-directory.ts';

/** Format of the state for each version of the schema; the database has no other note of it. */
const FORMATS: Readonly<Record<number, number>> = { 1: 2 };

test('a new format of the state has a new version of the schema', () => {
  assert.equal(FORMATS[SCHEMA_VERSION], FORMAT, 'raise SCHEMA_VERSION with FORMAT, and add both here');
});
