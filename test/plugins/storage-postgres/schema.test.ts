/** The version that tables have, and what it stands for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCHEMA_VERSION } from '../../../plugins/storage-postgres/schema.ts';
import { FORMAT } from '../../../subsystems/storage/state-directory.ts';

/** The format of the state that each version of the schema holds: nothing else in the database tells it. */
const FORMATS: Readonly<Record<number, number>> = { 1: 2 };

test('a new format of the state has a new version of the schema', () => {
  assert.equal(FORMATS[SCHEMA_VERSION], FORMAT, 'raise SCHEMA_VERSION with FORMAT, and add both here');
});
