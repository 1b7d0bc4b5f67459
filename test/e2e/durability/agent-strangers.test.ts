/** Proves that actors are told that an anonymous sender at /api is nobody's controller, also after a kill. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ANONYMOUS, principalToText } from '../../../subsystems/ic/index.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { type RunningServer, startServer } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { FIRST_ID, FIRST_TEXT } from '../../subsystems/agents/actor.ts';
import { type Content, contentOf, envelopeOf, newSigner, send } from '../../subsystems/agents/raw-agent.ts';

/** `told` is what the actor saw: the caller, and if that is a controller. */
const SOURCE = `
import Principal "mo:core/Principal";
persistent actor It {
  var gate = false;
  var told : [Text] = [];
  func seen(caller : Principal) : Text {
    Principal.toText(caller) # (if (Principal.isController(caller)) " controls" else " does not control");
  };
  public shared ({ caller }) func update() : async Text { seen(caller) };
  public shared query ({ caller }) func ask() : async Text { seen(caller) };
  public shared composite query ({ caller }) func askAll() : async Text { ignore await ask(); seen(caller) };
  public shared ({ caller }) func inspected() : async Text { seen(caller) };
  func pause() : async () {};
  public shared ({ caller }) func slow() : async () {
    told := [seen(caller)];
    while (not gate) { await pause() };
    told := [told[0], seen(caller)];
  };
  public query func results() : async [Text] { told };
  public func open() : async () { gate := true };
  public func close() : async () { gate := false };
  system func inspect({
    caller : Principal;
    msg : { #update : () -> (); #ask : () -> (); #askAll : () -> (); #inspected : () -> (); #slow : () -> ();
      #results : () -> (); #open : () -> (); #close : () -> () };
  }) : Bool {
    switch (msg) { case (#inspected _) Principal.isController(caller); case _ true };
  };
}`;
const NOBODY = principalToText(ANONYMOUS);
const CONTROLS = `${NOBODY} controls`;
const DOES_NOT = `${NOBODY} does not control`;

async function prepared(mode: string): Promise<{ readonly manifestFile: string; readonly args: readonly string[] }> {
  const folder = await temporaryDirectory();
  await writeFile(join(folder, 'it.wasm'), (await compileMotoko(SOURCE)).wasm);
  await writeFile(join(folder, 'actors.json'), '{"actors":{"it":{"wasm":"it.wasm"}}}');
  return {
    manifestFile: join(folder, 'actors.json'),
    args: ['--agents', mode, '--history', '100', '--state', join(folder, 'state')],
  };
}

/** Resolves with the text that a method answers at /api, or with its error code. */
async function agentText(server: RunningServer, kind: 'call' | 'query', method: string): Promise<string> {
  const envelope = envelopeOf(contentOf(kind, FIRST_ID, method));
  const version = kind === 'call' ? 4 : 3;
  const { cbor, text } = await send(server, `/api/v${version}/canister/${FIRST_TEXT}/${kind}`, envelope);
  const found = new RegExp(`[a-z0-9-]+ (?:controls|does not control)`).exec(text.replaceAll('\0', ' '));
  const code = cbor?.get('error_code');
  return found?.[0].replace(/^.*?(2vxsx)/, '$1') ?? (typeof code === 'string' ? code : text);
}

async function plainText(server: RunningServer, path: string): Promise<string> {
  const { status, body } = await server.post(path, '[]');
  assert.equal(status, 200, body);
  return (JSON.parse(body) as [string])[0];
}

async function results(server: RunningServer): Promise<readonly string[]> {
  return (JSON.parse((await server.post('/query-json/it/results')).body) as [string[]])[0];
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  while (!(await isTrue())) await sleep(5);
}

for (const mode of ['guarded', 'open'])
  test(`with ${mode}, an anonymous sender controls nothing at /api, and what it did elsewhere`, async (t) => {
    const server = await startServer(t, await prepared(mode));
    assert.equal(await agentText(server, 'call', 'update'), DOES_NOT);
    assert.equal(await agentText(server, 'call', 'ask'), DOES_NOT);
    assert.equal(await agentText(server, 'query', 'ask'), DOES_NOT);
    assert.equal(await agentText(server, 'query', 'askAll'), DOES_NOT);
    assert.equal(await agentText(server, 'call', 'inspected'), 'IC0502');
    assert.equal(await plainText(server, '/call-json/it/update'), CONTROLS);
    assert.equal(await plainText(server, '/query-json/it/ask'), CONTROLS);
    assert.equal(await plainText(server, '/query-json/it/askAll'), CONTROLS);
    assert.equal(await plainText(server, '/call-json/it/inspected'), CONTROLS);
    // Histories tell of the principal that there is.
    const { body } = await server.get('/history/it');
    assert.ok(body.includes(NOBODY), body);
    const callers = new Set([...body.matchAll(/(?:[a-z2-7]{1,5}-)+[a-z2-7]{2,3}/g)].map(([caller]) => caller));
    callers.delete(FIRST_TEXT);
    assert.deepEqual([...callers], [NOBODY]);
  });

test('a sender who has proven to be a controller is one at /api', async (t) => {
  const server = await startServer(t, await prepared('open'));
  const signer = newSigner();
  const controller = principalToText(signer.principal);
  const settings = JSON.stringify({ controllers: [controller] });
  const changed = await server.fetch('/x/actors/it/settings', { method: 'PUT', body: settings });
  assert.ok(changed.ok, await changed.text());
  const content: Content = contentOf('query', FIRST_ID, 'ask', signer.principal);
  const { text } = await send(server, `/api/v3/canister/${FIRST_TEXT}/query`, envelopeOf(content, signer));
  assert.ok(text.includes(`${controller} controls`), text);
});

test('a call that is under way at a kill goes on as that of somebody who controls nothing', async (t) => {
  const start = await prepared('open');
  let server = await startServer(t, start);
  for (const [path, expected] of [
    ['/api/v2', DOES_NOT],
    ['/call-json', CONTROLS],
  ] as const) {
    const asked =
      path === '/call-json'
        ? server.post('/call-json/it/slow')
        : send(server, `/api/v2/canister/${FIRST_TEXT}/call`, envelopeOf(contentOf('call', FIRST_ID, 'slow')));
    // The connection is cut by the kill.
    const cut = asked.catch(() => undefined);
    await until(async () => (await results(server)).length === 1);
    assert.deepEqual(await results(server), [expected]);
    await server.kill();
    await cut;
    server = await startServer(t, start);
    assert.deepEqual(await results(server), [expected]);
    assert.equal((await server.post('/call-json/it/open')).status, 200);
    await until(async () => (await results(server)).length === 2);
    assert.deepEqual(await results(server), [expected, expected]);
    assert.equal((await server.post('/call-json/it/close')).status, 200);
  }
});
