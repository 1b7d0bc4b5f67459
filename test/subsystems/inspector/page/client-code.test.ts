/** Calls as TypeScript with `svc/client`: what is copied runs, and has the arguments of the form. */
import assert from 'node:assert/strict';
import { stripTypeScriptTypes } from 'node:module';
import { suite, test } from 'node:test';
import { clientCode } from '../../../../subsystems/inspector/page/curl.ts';

const request = { actor: 'a', method: 'm', isQuery: false, isLossless: false, caller: '', json: '[]' };
const HERE = 'http://127.0.0.1:7000';

/** Runs copied code with a client that notes what it is asked. */
async function noted(code: string): Promise<readonly unknown[]> {
  const program = stripTypeScriptTypes(code)
    .replace(/^import .*$/gm, '')
    .replace('console.log(result);', 'return asked;');
  const asked: unknown[] = [];
  const ask =
    (verb: string) =>
    (...args: readonly unknown[]): void =>
      void asked.push(verb, ...args);
  class Client {
    constructor(options: unknown) {
      asked.push(options);
    }
    call = ask('call');
    query = ask('query');
    callCandid = ask('callCandid');
    queryCandid = ask('queryCandid');
    actor(name: string): unknown {
      asked.push(name);
      return this;
    }
  }
  const AsyncFunction = (async () => undefined).constructor as new (
    ...parts: string[]
  ) => (...args: unknown[]) => Promise<readonly unknown[]>;
  return new AsyncFunction('Client', 'asked', 'process', program)(Client, asked, { env: { SVC_TOKEN: 'secret' } });
}

const copied = (more: Partial<typeof request> & { readonly hex?: string }, hasToken = false, isTyped = false) =>
  noted(clientCode(HERE, { ...request, ...more }, { hasToken, isTyped }));

suite('a call as TypeScript', () => {
  test('names actor, method and arguments as they are, whatever they hold', async () => {
    const name = `it's "a" \\ \u202e\n\${x}`;
    assert.deepEqual(await copied({ actor: name, method: `${name}?`, json: '["\\"$(id)\\\\", 7]' }), [
      { url: HERE },
      'call',
      name,
      `${name}?`,
      ['"$(id)\\', 7],
    ]);
    assert.ok(!/[\u202e]/.test(clientCode(HERE, { ...request, method: name }, { hasToken: false, isTyped: false })));
  });

  test('rounds no integer, and sets no prototype', async () => {
    const [, , , , args] = await copied({
      json: '[90071992547409931234, -9007199254740993, 1.5e3, "12345678901234567890"]',
    });
    assert.deepEqual(args, ['90071992547409931234', '-9007199254740993', 1500, '12345678901234567890']);
    const [, , , , odd] = await copied({
      json: String.raw`[{"__proto__": {"a": 1}, "\u005f_proto__" : 2, "x": "__proto__"}]`,
    });
    const [record] = odd as [object];
    assert.deepEqual(Object.keys(record), ['__proto__', 'x']);
    assert.equal(Object.getPrototypeOf(record), Object.prototype);
  });

  test('has token, caller, encoding and bytes where the call has them', async () => {
    const query = await copied({ isQuery: true, isLossless: true, caller: 'aaaaa-aa' }, true);
    const options = { lossless: true, caller: 'aaaaa-aa' };
    assert.deepEqual(query, [{ url: HERE, token: 'secret' }, 'query', 'a', 'm', [], options]);
    const raw = await copied({ hex: '00ff' });
    assert.deepEqual(raw, [{ url: HERE }, 'callCandid', 'a', 'm', new Uint8Array([0, 255])]);
  });

  test('with types, asks for their file first', async () => {
    const code = clientCode(HERE, { ...request, actor: 'a b/' }, { hasToken: true, isTyped: true });
    const curl = `curl -H "Authorization: Bearer $SVC_TOKEN" '${HERE}/x/actors/a%20b%2F/types' > a_b_.d.mts`;
    assert.ok(code.startsWith(`// Types: ${curl}\n`), code);
    assert.ok(code.includes("import type { Actor } from './a_b_.mjs';"));
    assert.deepEqual(await noted(code), [{ url: HERE, token: 'secret' }, 'a b/', 'call', 'm', []]);
  });
});
