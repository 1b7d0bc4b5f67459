import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startServer } from './server.js';

test('the website is served, and shows who has signed', async (t) => {
  const { origin, call } = await startServer(t);
  assert.deepEqual(await call('call-json/website/sign', 'Ada', 'Hello!'), [true]);
  const page = await fetch(`${origin}/site/website/`);
  assert.equal(page.status, 200);
  assert.match(await page.text(), /Ada/);
});
