import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { ServerError } from '../../../kernel/index.ts';
import type { MethodKind } from '../../../subsystems/ic/index.ts';
import { OpenApiDocuments, type OpenApiOptions } from '../../../subsystems/openapi/openapi-documents.ts';

function start(t: TestContext, options: Partial<OpenApiOptions> = {}): OpenApiDocuments {
  const documents = new OpenApiDocuments({ isGuarded: false, ...options });
  t.after(() => documents.close());
  return documents;
}

const methods = new Map<string, MethodKind>([['m', 'update']]);
const candidOf = (comment: string) => ({ text: `// ${comment}\nservice : { m : () -> () }` });
const isCode =
  (code: string) =>
  (error: unknown): boolean =>
    error instanceof ServerError && error.code === code;

test('the document of an interface is made once, and anew for another interface or name', async (t) => {
  const documents = start(t);
  const candid = candidOf('one');
  const first = await documents.documentOf({ name: 'a', candid, methods });
  assert.equal(await documents.documentOf({ name: 'a', candid, methods }), first);
  const named = Buffer.from(await documents.documentOf({ name: 'b', candid, methods })).toString();
  assert.deepEqual(named.match(/"\/call-json\/[^"]*"/g), ['"/call-json/b/m"']);
  const other = await documents.documentOf({ name: 'a', candid: candidOf('two'), methods });
  assert.match(Buffer.from(other).toString(), /"description":"two/);
});

test('who asks while it is made gets the same document', async (t) => {
  const documents = start(t);
  const actor = { name: 'a', candid: candidOf('one'), methods };
  const [first, second] = await Promise.all([documents.documentOf(actor), documents.documentOf(actor)]);
  assert.equal(first, second);
});

test('the longest unused go when there are too many', async (t) => {
  const documents = start(t, { keptBytesMax: 20_000 });
  const candid = candidOf('one');
  const get = (name: string): Promise<Uint8Array> => documents.documentOf({ name, candid, methods });
  const [a, b] = [await get('a'), await get('b')];
  assert.ok(a.length > 3000 && a.length < 8000, String(a.length));
  for (let at = 0; at < 10; at++) {
    await get(`other${at}`);
    assert.equal(await get('a'), a, 'one that is used stays');
  }
  assert.notEqual(await get('b'), b);
});

test('one that is larger than all that may be kept lets the others stay', async (t) => {
  const documents = start(t, { keptBytesMax: 12_000 });
  const get = (name: string, candid: { text: string }): Promise<Uint8Array> =>
    documents.documentOf({ name, candid, methods });
  const small = candidOf('one');
  const a = await get('a', small);
  const large = candidOf('x'.repeat(20_000));
  const first = await get('b', large);
  assert.equal(await get('a', small), a);
  assert.notEqual(await get('b', large), first, 'it is made anew');
});

test('what cannot be made is an error each time, and the next one is made', async (t) => {
  const documents = start(t);
  const broken = { name: 'a', candid: { text: 'service : { m : (Nat65) -> () }' }, methods };
  for (let at = 0; at < 2; at++) await assert.rejects(documents.documentOf(broken), isCode('bad-interface'));
  await documents.documentOf({ name: 'a', candid: candidOf('one'), methods });
});

test('one that takes too long is given up', async (t) => {
  // The limit is less than any thread needs to begin.
  const documents = start(t, { jobDeadlineMs: 1 });
  const asked = documents.documentOf({ name: 'a', candid: candidOf('one'), methods });
  await assert.rejects(asked, /openapi-too-large|took longer than 1 ms/);
});

test('too many at once are refused, and closing rejects what has not ended', async () => {
  const documents = new OpenApiDocuments({ isGuarded: false });
  const asked = Array.from({ length: 70 }, (_, at) =>
    documents.documentOf({ name: `a${at}`, candid: candidOf('one'), methods }),
  );
  await assert.rejects(asked[69] ?? Promise.resolve(), isCode('openapi-busy'));
  const settled = Promise.allSettled(asked);
  await documents.close();
  const codes = new Set(
    (await settled).flatMap((one) => (one.status === 'rejected' ? [(one.reason as ServerError).code] : [])),
  );
  assert.deepEqual([...codes].toSorted(), ['openapi-busy', 'openapi-closed']);
  await assert.rejects(documents.documentOf({ name: 'a', candid: candidOf('two'), methods }), isCode('openapi-closed'));
});
