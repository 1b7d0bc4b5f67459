import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startServer } from './server.js';

test('a note is kept, found by a word, and refused without a title', async (t) => {
  const { as } = await startServer(t);
  // The caller is a claim that the server does not check: behind a token, whoever has it is trusted.
  const call = as('rrkah-fqaaa-aaaaa-aaaaq-cai');
  const draft = { title: 'Milk', body: 'Two bottles', tags: ['shop'] };
  const [{ ok: note }] = await call('call-json/notes/create', draft);
  assert.equal(note.title, 'Milk');
  const [found] = await call('query-json/notes/list', 'bottles');
  assert.deepEqual(
    found.map(({ id }) => id),
    [note.id],
  );
  const [refused] = await call('call-json/notes/create', { ...draft, title: '' });
  assert.equal(refused.err.invalid.field, 'title');
});
