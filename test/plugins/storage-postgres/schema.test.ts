/** The version of the schema, and the format of the state for which it stands. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SCHEMA_VERSION } from '../../../plugins/storage-postgres/schema.ts';
import { FORMAT } from '../../../subsystems/storage/format-steps.ts';

/**
 * Formats of the state for each version of the schema; the database has no other note of them. Format 3 changed nothing
 * but the step log, which a database has not; versions 2 to 4 of the schema added tables.
 */
const FORMATS: Readonly<Record<number, readonly number[]>> = { 1: [2, 3], 2: [3], 3: [3], 4: [3] };

test('a new format of the state has a version of the schema', () => {
  const formats = FORMATS[SCHEMA_VERSION] ?? [];
  assert.ok(formats.includes(FORMAT), 'add a step to SCHEMA_STEPS if rows change with FORMAT, and add both here');
});
