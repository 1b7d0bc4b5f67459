/** Management calls of users at `/api`: by clients as they come from npm, and by one that sends anything. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import type { HttpAgent } from 'icp-core-6/agent';
import { MANAGEMENT_DID } from '../../../subsystems/management/interface-did.ts';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { hashOfMap } from '../../../subsystems/certification/index.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import type { InProcessServer } from '../../support/in-process-server.ts';
import { startInProcess } from '../../support/in-process-server.ts';
import { compiledActor, FIRST_ID, FIRST_TEXT, startWithActor } from './actor.ts';
import { type Core, CORES, rejection } from './cores.ts';
import { managementOf } from './management-actor.ts';
import {
  certified,
  type Content,
  contentOf,
  envelopeOf,
  newSigner,
  type RawAnswer,
  readContent,
  rootKeyOf,
  send,
} from './raw-agent.ts';

const { methods } = createCodec().parseInterface(MANAGEMENT_DID);
const MANAGEMENT = new Uint8Array();
const ANYWHERE = '/api/v4/canister/aaaaa-aa/call';
const EMPTY_ARGUMENT = Buffer.from('4449444c0000', 'hex');

async function counterOf({ agent, candid }: Core, by: HttpAgent, id: { toText(): string }) {
  const { IDL } = candid;
  return agent.Actor.createActor<{ inc(): Promise<bigint>; get(): Promise<bigint> }>(
    () => IDL.Service({ inc: IDL.Func([], [IDL.Nat], []), get: IDL.Func([], [IDL.Nat], ['query']) }),
    { agent: by, canisterId: id.toText() },
  );
}

for (const [name, core] of Object.entries(CORES))
  suite(`management calls of ${name}`, () => {
    const agentOf = ({ origin }: InProcessServer, more: object = {}): Promise<HttpAgent> =>
      core.agent.HttpAgent.create({ host: origin, shouldFetchRootKey: true, ...more });

    for (const callSync of [true, false])
      test(`a canister's life, ${callSync ? 'at once' : 'by polling'}`, async (t) => {
        const server = await startInProcess(t);
        const identity = core.identity.Ed25519KeyIdentity.generate();
        const agent = await agentOf(server, { identity, callOptions: { callSync } });
        const { calls, queries } = managementOf(core, agent);
        const me = identity.getPrincipal().toText();
        const created = await calls.provisional_create_canister_with_cycles({ amount: [10n ** 13n], settings: [] });
        const about = { canister_id: core.principal.Principal.fromText(created.canister_id.toText()) };
        const status = await calls.canister_status(about);
        assert.deepEqual(Object.keys(status.status), ['running']);
        assert.deepEqual(
          status.settings.controllers.map((each) => each.toText()),
          [me],
        );
        assert.equal((await queries.canister_status(about)).cycles, 10n ** 13n);

        const wasm = await compiledActor();
        const half = Math.min(wasm.length >> 1, 1 << 20);
        const pieces = [];
        for (let at = 0; at < wasm.length; at += half)
          pieces.push(await calls.upload_chunk({ ...about, chunk: wasm.subarray(at, at + half) }));
        assert.equal((await calls.stored_chunks(about)).length, pieces.length);
        await calls.install_chunked_code({
          mode: { install: null },
          target_canister: about.canister_id,
          chunk_hashes_list: pieces,
          wasm_module_hash: createHash('sha256').update(wasm).digest(),
          arg: EMPTY_ARGUMENT,
        });
        await calls.clear_chunk_store(about);
        assert.deepEqual(await calls.stored_chunks(about), []);
        const counter = await counterOf(core, agent, about.canister_id);
        assert.equal(await counter.inc(), 1n);

        const snapshot = await calls.take_canister_snapshot(about);
        const taken = { ...about, snapshot_id: new Uint8Array(snapshot.id) };
        assert.equal(await counter.inc(), 2n);
        await calls.stop_canister(about);
        assert.deepEqual(Object.keys((await queries.canister_status(about)).status), ['stopped']);
        await calls.load_canister_snapshot(taken);
        await calls.start_canister(about);
        assert.equal(await counter.get(), 1n);
        const kind = { wasm_module: { offset: 0n, size: 4n } };
        const { chunk } = await calls.read_canister_snapshot_data({ ...taken, kind });
        assert.deepEqual([...chunk], [...wasm.subarray(0, 4)]);
        assert.equal((await calls.list_canister_snapshots(about)).length, 1);
        await calls.delete_canister_snapshot(taken);
        assert.deepEqual(await calls.list_canister_snapshots(about), []);

        await calls.install_code({ ...about, mode: { reinstall: null }, wasm_module: wasm, arg: EMPTY_ARGUMENT });
        assert.equal(await counter.get(), 0n);
        assert.deepEqual((await queries.fetch_canister_logs(about)).canister_log_records, []);
        await calls.provisional_top_up_canister({ ...about, amount: 10n ** 13n });
        assert.ok((await calls.canister_status(about)).cycles > 15n * 10n ** 12n);
        await calls.uninstall_code(about);
        await assert.rejects(calls.delete_canister(about), rejection(5, 'IC0510', 'only a stopped canister'));
        await calls.stop_canister(about);
        await calls.delete_canister(about);
        await assert.rejects(calls.canister_status(about), rejection(3, 'IC0301'));
      });

    test('whoever is no controller is refused, and the anonymous principal is nobody’s', async (t) => {
      const server = await startWithActor(t);
      const owner = core.identity.Ed25519KeyIdentity.generate();
      const other = core.identity.Ed25519KeyIdentity.generate();
      const owners = managementOf(core, await agentOf(server, { identity: owner })).calls;
      const others = managementOf(core, await agentOf(server, { identity: other })).calls;
      const nobodys = managementOf(core, await agentOf(server));
      const { Principal } = core.principal;
      const made = await owners.create_canister({ settings: [] });
      const about = { canister_id: Principal.fromText(made.canister_id.toText()) };
      const first = { canister_id: Principal.fromText(FIRST_TEXT) };
      const refused = rejection(5, 'IC0512');
      await assert.rejects(others.canister_status(about), refused);
      await assert.rejects(others.stop_canister(about), refused);
      await assert.rejects(nobodys.calls.stop_canister(about), refused);
      // The anonymous principal is the only controller of this one.
      await assert.rejects(nobodys.calls.stop_canister(first), refused);
      await assert.rejects(nobodys.calls.uninstall_code(first), refused);
      await assert.rejects(nobodys.queries.canister_status(first), refused);
      await assert.rejects(nobodys.queries.fetch_canister_logs(first), refused);
      await assert.rejects(nobodys.calls.create_canister({ settings: [] }), refused);
      await assert.rejects(owners.deposit_cycles(about), rejection(4, 'IC0406', 'only canisters'));
      await assert.rejects(owners.raw_rand(), rejection(4, 'IC0406', 'only canisters'));
      const both = [owner.getPrincipal(), other.getPrincipal()].map((each) => Principal.fromText(each.toText()));
      await owners.update_settings({ ...about, settings: { controllers: [both] } });
      await others.stop_canister(about);
    });
  });

function managing(method: string, argument: unknown, sender?: Uint8Array, type: 'call' | 'query' = 'call'): Content {
  const types = methods.get(method);
  assert.ok(types, method);
  const bytes = types.args.encode(Buffer.from(JSON.stringify(argument === undefined ? [] : [argument])), {
    lossless: false,
  });
  return new Map(contentOf(type, MANAGEMENT, method, sender)).set('arg', Buffer.from(bytes));
}

function resultOf(method: string, data: Uint8Array | undefined): unknown {
  const types = methods.get(method);
  assert.ok(types !== undefined && data !== undefined, method);
  const [result] = JSON.parse(
    Buffer.from(types.results.decode(data, { lossless: false })).toString(),
  ) as readonly unknown[];
  return result;
}

const statusPath = (content: Content, name: string): (string | Uint8Array)[] => [
  'request_status',
  hashOfMap(content),
  name,
];

async function certifiedResult(server: InProcessServer, content: Content, answer: RawAnswer): Promise<Uint8Array> {
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.cbor?.get('status'), 'replied', JSON.stringify([...(answer.cbor ?? [])]));
  const found = certified(answer, await rootKeyOf(server))(statusPath(content, 'reply'));
  assert.ok(found instanceof Uint8Array, String(found));
  return found;
}

suite('management calls at /api', () => {
  test('a call that comes again is answered, not executed again, also by the next process', async (t) => {
    const state = await temporaryDirectory();
    const args = ['--state', state];
    const signer = newSigner();
    const create = managing('provisional_create_canister_with_cycles', {}, signer.principal);
    const envelope = envelopeOf(create, signer);
    const before = await startInProcess(t, { args });
    const answers = await Promise.all([1, 2, 3].map(() => send(before, ANYWHERE, envelope)));
    const made = await Promise.all(
      answers.map(async (answer) => resultOf('create_canister', await certifiedResult(before, create, answer))),
    );
    const { canister_id: id } = made[0] as { readonly canister_id: string };
    assert.deepEqual(made, [{ canister_id: id }, { canister_id: id }, { canister_id: id }]);
    const stop = envelopeOf(managing('stop_canister', { canister_id: id }, signer.principal), signer);
    const remove = managing('delete_canister', { canister_id: id }, signer.principal);
    const removing = envelopeOf(remove, signer);
    const path = `/api/v4/canister/${id}/call`;
    await certifiedResult(before, stop.get('content') as Content, await send(before, path, stop));
    await certifiedResult(before, remove, await send(before, path, removing));
    await before.stop();

    const after = await startInProcess(t, { args });
    const again = await certifiedResult(after, create, await send(after, ANYWHERE, envelope));
    assert.deepEqual(resultOf('create_canister', again), { canister_id: id });
    // The canister is gone: executed once more, it would not be found.
    await certifiedResult(after, remove, await send(after, path, removing));
    assert.deepEqual(JSON.parse((await after.get('/inspect')).body), []);
  });

  test('the path names what the call is about', async (t) => {
    const server = await startWithActor(t);
    const signer = newSigner();
    const other = principalToText(Buffer.from('80000000001000020101', 'hex'));
    const status = managing('canister_status', { canister_id: FIRST_TEXT }, signer.principal);
    for (const id of ['aaaaa-aa', other]) {
      const answer = await send(server, `/api/v4/canister/${id}/call`, envelopeOf(status, signer));
      assert.deepEqual([answer.status, /the path names [^]* but the call is about /.test(answer.text)], [400, true]);
    }
    const create = managing('create_canister', {}, signer.principal);
    const created = await send(server, `/api/v4/canister/${FIRST_TEXT}/call`, envelopeOf(create, signer));
    await certifiedResult(server, create, created);
    const elsewhere = await send(server, ANYWHERE, envelopeOf(create, signer));
    assert.match(elsewhere.text, /^bad request: the path names another id than this request had before/);
    // The status of a request is for its sender, at the id that it had.
    const path = [Buffer.from('request_status'), hashOfMap(create)];
    const asked = async (id: string, by: ReturnType<typeof newSigner>): Promise<number> => {
      const read = envelopeOf(readContent([path], by.principal), by);
      return (await send(server, `/api/v3/canister/${id}/read_state`, read)).status;
    };
    assert.equal(await asked(FIRST_TEXT, signer), 200);
    assert.equal(await asked('aaaaa-aa', signer), 403);
    assert.equal(await asked(FIRST_TEXT, newSigner()), 403);
  });

  test('what is wrong with the call itself is certified, and what is not accepted is not', async (t) => {
    const server = await startWithActor(t);
    const signer = newSigner();
    const rootKey = await rootKeyOf(server);
    const codeOf = async (content: Content): Promise<unknown> => {
      const answer = await send(server, ANYWHERE, envelopeOf(content, signer));
      assert.equal(answer.status, 200, answer.text);
      if (answer.cbor?.get('status') === 'non_replicated_rejection') return ['refused', answer.cbor.get('error_code')];
      const found = certified(answer, rootKey)(statusPath(content, 'error_code'));
      return ['certified', Buffer.from(found as Uint8Array).toString()];
    };
    const named = (method: string, argument = EMPTY_ARGUMENT): Content =>
      new Map(contentOf('call', MANAGEMENT, method, signer.principal)).set('arg', argument);
    assert.deepEqual(await codeOf(named('no_such_method')), ['certified', 'IC0407']);
    assert.deepEqual(await codeOf(named('canister_status')), ['certified', 'IC0408']);
    assert.deepEqual(await codeOf(named('canister_status', Buffer.from('no candid'))), ['certified', 'IC0408']);
    // A list of 10^6 empty values in a few bytes.
    const bomb = Buffer.from('4449444c016d7f0100c0843d', 'hex');
    assert.deepEqual(await codeOf(named('canister_status', bomb)), ['certified', 'IC0408']);
    assert.deepEqual(await codeOf(named('raw_rand')), ['refused', 'IC0406']);
    assert.deepEqual(await codeOf(named('vetkd_public_key')), ['refused', 'IC0406']);
    assert.deepEqual(await codeOf(named('fetch_canister_logs')), ['refused', 'IC0406']);
  });

  test('the subnet takes creations and lists, and nothing else', async (t) => {
    const server = await startWithActor(t);
    const signer = newSigner();
    const rootKey = await rootKeyOf(server);
    const subnet = principalToText(Buffer.concat([createHash('sha224').update(rootKey).digest(), Uint8Array.of(2)]));
    const call = `/api/v4/subnet/${subnet}/call`;
    const query = `/api/v3/subnet/${subnet}/query`;
    const create = managing('provisional_create_canister_with_cycles', {}, signer.principal);
    await certifiedResult(server, create, await send(server, call, envelopeOf(create, signer)));
    const list = managing('list_canisters', undefined, signer.principal, 'query');
    const listed = (await send(server, query, envelopeOf(list, signer))).cbor;
    assert.equal(listed?.get('status'), 'replied');
    const reply = listed?.get('reply') as Content;
    const { canisters } = resultOf('list_canisters', reply.get('arg') as Uint8Array) as {
      canisters: { start: string }[];
    };
    assert.equal(canisters[0]?.start, FIRST_TEXT);
    const status = { canister_id: FIRST_TEXT };
    for (const [path, content, reason] of [
      [call, managing('canister_status', status, signer.principal), /cannot be asked of a subnet/],
      [query, managing('canister_status', status, signer.principal, 'query'), /cannot be asked of a subnet/],
      [`/api/v4/subnet/${FIRST_TEXT}/call`, create, /names no subnet of this host/],
      [call, contentOf('call', FIRST_ID, 'inc', signer.principal), /but the request is for/],
    ] as const) {
      const answer = await send(server, path, envelopeOf(content, signer));
      assert.equal(answer.status, 400);
      assert.match(answer.text, reason);
    }
  });

  test('open: strangers create nothing, list nothing, and give no cycles', async (t) => {
    const server = await startInProcess(t, { args: ['--agents', 'open'] });
    assert.equal((await server.post('/install/it', await compiledActor())).status, 200);
    const signer = newSigner();
    const codeOf = async (path: string, content: Content): Promise<unknown> =>
      (await send(server, path, envelopeOf(content, signer))).cbor?.get('error_code');
    assert.equal(await codeOf(ANYWHERE, managing('create_canister', {}, signer.principal)), 'IC0512');
    const provisional = managing('provisional_create_canister_with_cycles', {}, signer.principal);
    assert.equal(await codeOf(ANYWHERE, provisional), 'IC0512');
    const topUp = managing('provisional_top_up_canister', { canister_id: FIRST_TEXT, amount: 5 }, signer.principal);
    assert.equal(await codeOf(`/api/v4/canister/${FIRST_TEXT}/call`, topUp), 'IC0512');
    const list = managing('list_canisters', undefined, signer.principal, 'query');
    assert.equal(await codeOf('/api/v3/canister/aaaaa-aa/query', list), 'IC0512');
  });

  test('the audit tells of changes and their senders, not of what is only read', async (t) => {
    const server = await startInProcess(t, { args: ['--audit'] });
    const signer = newSigner();
    const create = managing('create_canister', {}, signer.principal);
    const reply = await certifiedResult(server, create, await send(server, ANYWHERE, envelopeOf(create, signer)));
    const { canister_id: id } = resultOf('create_canister', reply) as { readonly canister_id: string };
    for (const method of ['canister_status', 'start_canister']) {
      const content = managing(method, { canister_id: id }, signer.principal);
      await certifiedResult(
        server,
        content,
        await send(server, `/api/v4/canister/${id}/call`, envelopeOf(content, signer)),
      );
    }
    const other = newSigner();
    const stop = managing('stop_canister', { canister_id: id }, other.principal);
    const refused = await send(server, `/api/v4/canister/${id}/call`, envelopeOf(stop, other));
    assert.equal(refused.cbor?.get('error_code'), 'IC0512');
    const told = server.log.events.filter(({ event }) => event === 'audit').map(({ fields }) => fields);
    const who = principalToText(signer.principal);
    assert.deepEqual(
      told.map(({ who: by, route, outcome }) => [by, route, outcome]),
      [
        [who, 'POST /api aaaaa-aa create_canister', 'begun'],
        [who, 'POST /api aaaaa-aa create_canister', 'done'],
        [who, 'POST /api aaaaa-aa start_canister', 'begun'],
        [who, 'POST /api aaaaa-aa start_canister', 'done'],
      ],
    );
  });
});
