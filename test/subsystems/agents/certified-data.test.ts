/** Certified data of actors with `"certificate": "signed"`: its certificates verify with unmodified clients. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { Certificate, LookupPathStatus } from 'icp-core-6/agent';
import { IDL } from 'icp-core-6/candid';
import { Principal } from 'icp-core-6/principal';
import type { CborMap } from '../../../subsystems/certification/index.ts';
import { type Clock, systemClock } from '../../../kernel/index.ts';
import { EventClient } from '../../support/event-client.ts';
import { send as httpSend } from '../../support/http-client.ts';
import { type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import type { TestOwner } from '../../support/server.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import { FIRST_ID, FIRST_TEXT } from './actor.ts';
import { contentOf, envelopeOf, rootKeyOf, send } from './raw-agent.ts';

const SOURCE = `
import CertifiedData "mo:core/CertifiedData";
import Runtime "mo:core/Runtime";
persistent actor It {
  var data : Blob = "";
  public func set(to : Blob) : async () { data := to; CertifiedData.set(to) };
  public func setAndTrap(to : Blob) : async () { CertifiedData.set(to); Runtime.trap("as it was asked to") };
  public query func certified() : async (Blob, ?Blob) { (data, CertifiedData.getCertificate()) };
  public func inUpdate() : async (Blob, ?Blob) { (data, CertifiedData.getCertificate()) };
  public composite query func ofAnother() : async (Blob, ?Blob) { await certified() };
  public composite query func byComposite() : async (Blob, ?Blob) { (data, CertifiedData.getCertificate()) };
  public query func late() : async (Blob, ?Blob) {
    var rounds = 0;
    while (rounds < 1_000_000) rounds += 1;
    (data, CertifiedData.getCertificate());
  };
  type Request = { method : Text; url : Text; headers : [(Text, Text)]; body : Blob };
  type Response = { status_code : Nat16; headers : [(Text, Text)]; body : Blob };
  public query func http_request(_ : Request) : async Response {
    let ?certificate = CertifiedData.getCertificate() else Runtime.trap("there is no certificate");
    { status_code = 200; headers = []; body = certificate };
  };
}`;
const BLOB = IDL.Vec(IDL.Nat8);

interface Told {
  readonly data: Uint8Array;
  readonly certificate: Uint8Array | undefined;
}

/** Starts a server whose manifest has actors with that code: `a` to `c` have signed certificates, `plain` has none. */
async function start(t: TestOwner, args: readonly string[] = [], clock?: Clock): Promise<InProcessServer> {
  const directory = await temporaryDirectory();
  await mkdir(directory, { recursive: true });
  await writeFile(join(directory, 'it.wasm'), (await compileMotoko(SOURCE)).wasm);
  const signed = { wasm: 'it.wasm', certificate: 'signed' };
  const actors = { a: signed, b: signed, c: signed, plain: { wasm: 'it.wasm' } };
  await writeFile(join(directory, 'actors.json'), JSON.stringify({ actors }));
  return await startInProcess(t, { manifestFile: join(directory, 'actors.json'), args, ...(clock && { clock }) });
}

async function sent(server: InProcessServer, path: string, argument: Uint8Array): Promise<Uint8Array> {
  const response = await server.fetch(path, { method: 'POST', body: new Uint8Array(argument) });
  const bytes = new Uint8Array(await response.arrayBuffer());
  assert.equal(response.status, 200, Buffer.from(bytes).toString());
  return bytes;
}

async function set(server: InProcessServer, actor: string, data: string): Promise<void> {
  await sent(server, `/call/${actor}/set`, IDL.encode([BLOB], [Buffer.from(data)]));
}

async function told(server: InProcessServer, actor: string, method = 'certified', way = 'query'): Promise<Told> {
  const reply = await sent(server, `/${way}/${actor}/${method}`, IDL.encode([], []));
  const [data, certificate] = IDL.decode([BLOB, IDL.Opt(BLOB)], reply) as unknown as [Uint8Array, [Uint8Array?]];
  return { data, certificate: certificate[0] };
}

/** Returns the data that a certificate of an actor has, when a client has verified it. */
async function verified(server: InProcessServer, actor: string, certificate: Uint8Array | undefined): Promise<string> {
  assert.ok(certificate, 'there is a certificate');
  const actors = JSON.parse((await server.get('/inspect')).body) as readonly { name: string; principal: string }[];
  const canisterId = Principal.fromText(actors.find(({ name }) => name === actor)?.principal ?? '');
  const rootKey = await rootKeyOf(server);
  // A copy: the client reads the whole buffer behind a part of one.
  const own = new Uint8Array(certificate);
  const checked = await Certificate.create({ certificate: own, rootKey, principal: { canisterId } });
  const found = checked.lookup_path(['canister', canisterId.toUint8Array(), 'certified_data']);
  assert.ok(found.status === LookupPathStatus.Found, found.status);
  return Buffer.from(found.value).toString();
}

async function certifiedOf(server: InProcessServer, actor: string): Promise<string> {
  return await verified(server, actor, (await told(server, actor)).certificate);
}

suite('"certificate": "signed"', () => {
  test('queries find a certificate of the data, which clients verify; others, and updates, find none', async (t) => {
    const server = await start(t);
    assert.equal(await certifiedOf(server, 'a'), '');
    await set(server, 'a', 'first');
    await set(server, 'b', 'of b');
    assert.equal(await certifiedOf(server, 'a'), 'first');
    assert.equal(await certifiedOf(server, 'b'), 'of b');
    assert.equal(await verified(server, 'a', (await told(server, 'a', 'byComposite')).certificate), 'first');
    await set(server, 'b', 'newer');
    const late = await told(server, 'b', 'late');
    assert.equal(await verified(server, 'b', late.certificate), 'newer', 'a query that has a stack of its own');
    const query = envelopeOf(contentOf('query', FIRST_ID, 'certified'));
    const { cbor } = await send(server, `/api/v3/canister/${FIRST_TEXT}/query`, query);
    const reply = cbor?.get('reply') as CborMap | undefined;
    const arg = new Uint8Array(reply?.get('arg') as Uint8Array);
    const [, [atApi]] = IDL.decode([BLOB, IDL.Opt(BLOB)], arg) as unknown as [Uint8Array, [Uint8Array]];
    assert.equal(await verified(server, 'a', atApi), 'first');
    const site = await server.fetch('/site/a/', { redirect: 'manual' });
    const body = new Uint8Array(await site.arrayBuffer());
    assert.equal(site.status, 200, Buffer.from(body).toString());
    assert.equal(await verified(server, 'a', body), 'first');
    assert.equal((await told(server, 'a', 'inUpdate', 'call')).certificate, undefined);
    assert.equal((await told(server, 'a', 'certified', 'call')).certificate, undefined, 'a query as an update');
    assert.equal((await told(server, 'a', 'ofAnother')).certificate, undefined, 'a query that a canister calls');
    assert.equal((await told(server, 'plain')).certificate, undefined);
  });

  test('the certificate is that of the state which the query sees, however often the data changes', async (t) => {
    const server = await start(t, ['--state', await temporaryDirectory(), '--fsync', 'off']);
    const asked: Promise<[string, Told]>[] = [];
    const changes: Promise<void>[] = [];
    for (let n = 0; n < 5; n++)
      for (const actor of ['a', 'b', 'c']) {
        changes.push(set(server, actor, `${actor} ${n}`));
        asked.push(told(server, actor).then((each) => [actor, each]));
      }
    for (const [actor, { data, certificate }] of await Promise.all(asked))
      assert.equal(await verified(server, actor, certificate), Buffer.from(data).toString());
    await Promise.all(changes);
    for (const actor of ['a', 'b', 'c']) {
      const { data, certificate } = await told(server, actor);
      assert.equal(await verified(server, actor, certificate), Buffer.from(data).toString());
    }
  });

  test('a message that traps changes nothing; upgrades and restarts keep the data; a stopped actor answers nothing', async (t) => {
    const args = ['--state', await temporaryDirectory()];
    const server = await start(t, args);
    await set(server, 'a', 'kept');
    const trapping = await server.post('/call/a/setAndTrap', IDL.encode([BLOB], [Buffer.from('lost')]));
    assert.notEqual(trapping.status, 200);
    assert.equal(await certifiedOf(server, 'a'), 'kept');
    await sent(server, '/upgrade/a', (await compileMotoko(SOURCE)).wasm);
    assert.equal(await certifiedOf(server, 'a'), 'kept');
    assert.equal((await server.post('/stop/a')).status, 200);
    assert.notEqual((await server.post('/query/a/certified', IDL.encode([], []))).status, 200);
    assert.equal((await server.post('/start/a')).status, 200);
    await server.stop();
    const later = await start(t, args);
    assert.equal(await certifiedOf(later, 'a'), 'kept');
  });

  test('live queries, alone and in a list, show each change with a certificate of it', async (t) => {
    const server = await start(t);
    await set(server, 'a', 'first');
    for (const target of ['/watch/a/certified', '/watch?q=q:a/certified']) {
      await using stream = await EventClient.open(server.origin, target);
      for (const data of ['first', 'second', 'first']) {
        if (data !== 'first' || (await told(server, 'a')).data.length !== data.length) await set(server, 'a', data);
        let shown = '';
        while (shown !== data) {
          const event = (await stream.next()) ?? assert.fail('the stream has ended');
          const [found, certificate] = JSON.parse(event.data) as readonly [string, string];
          shown = Buffer.from(found, 'base64').toString();
          assert.equal(await verified(server, 'a', Buffer.from(certificate, 'base64')), shown, target);
        }
      }
    }
  });

  test('websites at host names, of names and of principals, show it too', async (t) => {
    const server = await start(t, ['--site-hosts']);
    await set(server, 'a', 'shown');
    const port = new URL(server.origin).port;
    for (const host of [`a.localhost:${port}`, `${FIRST_TEXT}.localhost:${port}`]) {
      const { status, body } = await httpSend(server.origin, 'GET', '/', { headers: { host } });
      assert.equal(status, 200, body.toString());
      assert.equal(await verified(server, 'a', body), 'shown', host);
    }
  });

  test('an actor that sleeps is woken, and the certificate is of what it had', async (t) => {
    const server = await start(t, ['--state', await temporaryDirectory(), '--fsync', 'off', '--live-cap', '1']);
    for (const actor of ['a', 'b', 'c']) await set(server, actor, `of ${actor}`);
    const isLive = async (): Promise<readonly string[]> => {
      const actors = JSON.parse((await server.get('/inspect')).body) as readonly { name: string; live: boolean }[];
      return actors.filter(({ live }) => live).map(({ name }) => name);
    };
    await using stream = await EventClient.open(server.origin, '/watch/a/certified');
    assert.ok((await stream.next()) !== undefined);
    for (let times = 0; times < 3; times++)
      for (const actor of ['a', 'b', 'c']) {
        assert.ok((await isLive()).length <= 1);
        assert.equal(await certifiedOf(server, actor), `of ${actor}`);
        assert.deepEqual(await isLive(), [actor]);
      }
    await set(server, 'a', 'of a, newer');
    const event = (await stream.next()) ?? assert.fail('the stream has ended');
    const [, certificate] = JSON.parse(event.data) as readonly [string, string];
    assert.equal(await verified(server, 'a', Buffer.from(certificate, 'base64')), 'of a, newer');
  });

  test('?certificate= of /install and /upgrade says the same as the manifest, and either takes the other’s place', async (t) => {
    const server = await start(t);
    const { wasm } = await compileMotoko(SOURCE);
    await sent(server, '/install/new?certificate=signed', wasm);
    await set(server, 'new', 'of new');
    assert.equal(await certifiedOf(server, 'new'), 'of new');
    await sent(server, '/upgrade/new?certificate=placeholder', wasm);
    const placeholder = await told(server, 'new');
    await assert.rejects(verified(server, 'new', placeholder.certificate));
    await sent(server, '/upgrade/new', wasm);
    assert.deepEqual(await told(server, 'new'), placeholder);
    await sent(server, '/upgrade/new?certificate=signed', wasm);
    assert.equal(await certifiedOf(server, 'new'), 'of new');
    assert.equal((await told(server, 'new', 'ofAnother')).certificate, undefined, 'a placeholder would be found');
    await sent(server, '/install/new?mode=reinstall&certificate=signed', wasm);
    assert.equal(await certifiedOf(server, 'new'), '');
    const { status, body } = await server.post('/upgrade/new?certificate=other', wasm);
    assert.equal(status, 404);
    assert.match(body, /expected certificate=placeholder or certificate=signed/);
  });

  test('a certificate is given again for half a minute', async (t) => {
    let aheadMs = 0;
    const begunMs = systemClock.nowMs();
    const server = await start(t, [], { ...systemClock, nowMs: () => begunMs + aheadMs });
    const first = await told(server, 'a');
    aheadMs = 29_000;
    assert.deepEqual(await told(server, 'a'), first);
    aheadMs = 30_000;
    const second = await told(server, 'a');
    assert.notDeepEqual(second, first);
    assert.equal(await verified(server, 'a', second.certificate), '');
  });

  test('a host without agents says why there is no certificate', async (t) => {
    const server = await start(t, ['--agents', 'off']);
    const { status, body } = await server.post('/query/a/certified', IDL.encode([], []));
    assert.notEqual(status, 200);
    assert.match(body, /there is no certificate now: this host certifies nothing: start the server with --agents/);
  });
});
