/** Requests of a client that sends anything: what is refused, in which order, and what the answers say. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { type CborValue, hashOfMap } from '../../../subsystems/certification/index.ts';
import { FIRST_ID, FIRST_TEXT, startWithActor } from './actor.ts';
import {
  cborOf,
  certified,
  type Content,
  contentOf,
  delegationTo,
  envelopeOf,
  newSigner,
  type RawAnswer,
  readContent,
  rootKeyOf,
  send,
} from './raw-agent.ts';

const CALL = `/api/v4/canister/${FIRST_TEXT}/call`;
const CALL_2 = `/api/v2/canister/${FIRST_TEXT}/call`;
const QUERY = `/api/v3/canister/${FIRST_TEXT}/query`;
const READ = `/api/v3/canister/${FIRST_TEXT}/read_state`;
const OTHER_TEXT = 'r7inp-6aaaa-aaaaa-aaabq-cai';
const OTHER_ID = Buffer.from('00000000000000030101', 'hex');
const label = (text: string): Buffer => Buffer.from(text);

/** Returns the content with a field that is another, or none. */
function changed(content: Content, field: string, value: CborValue | undefined): Content {
  const copy = new Map(content);
  if (value === undefined) copy.delete(field);
  else copy.set(field, value);
  return copy;
}

function rejection({ status, cbor }: RawAnswer): readonly unknown[] {
  assert.equal(status, 200);
  return [cbor?.get('status'), cbor?.get('reject_code'), cbor?.get('error_code')];
}

suite('requests of agents', () => {
  test('fields that are missing, of another kind, or too much are named', async (t) => {
    const server = await startWithActor(t);
    const call = contentOf('call', FIRST_ID, 'inc');
    const read = readContent([[label('time')]]);
    const cases: readonly (readonly [string, Content | Uint8Array, RegExp])[] = [
      [CALL, Buffer.from('no cbor'), /is not the CBOR of a request/],
      [CALL, Buffer.alloc(0), /end inside a value/],
      [CALL, new Map(), /bad request: content is missing: expected a map/],
      [CALL, cborOf(5n), /the envelope is of another kind/],
      [CALL, envelopeOf(changed(call, 'request_type', 'query')), /content.request_type "query" does not fit the path/],
      [QUERY, envelopeOf(call), /content.request_type "call" does not fit the path/],
      [CALL, envelopeOf(changed(call, 'sender', undefined)), /content.sender is missing/],
      [CALL, envelopeOf(changed(call, 'sender', Buffer.alloc(30, 1))), /content.sender has 30 of at most 29 bytes/],
      [CALL, envelopeOf(changed(call, 'ingress_expiry', 'soon')), /content.ingress_expiry is of another kind/],
      [
        CALL,
        envelopeOf(changed(call, 'ingress_expiry', 2n ** 64n - 1n)),
        /^Invalid request expiry: Specified ingress_expiry/,
      ],
      [
        CALL,
        envelopeOf(changed(call, 'ingress_expiry', 1n)),
        /^Invalid request expiry: Specified ingress_expiry not within/,
      ],
      [CALL, envelopeOf(changed(call, 'nonce', Buffer.alloc(33))), /content.nonce has 33 of at most 32 bytes/],
      [CALL, envelopeOf(changed(call, 'arg', undefined)), /content.arg is missing/],
      [CALL, envelopeOf(changed(call, 'method_name', Buffer.from('inc'))), /content.method_name is of another kind/],
      [
        CALL,
        envelopeOf(changed(call, 'sender_info', new Map())),
        /content.sender_info is not taken by this host, whose actors find no attributes/,
      ],
      [
        CALL,
        envelopeOf(changed(call, 'canister_id', OTHER_ID)),
        /the path names bkyz2.*, but the request is for r7inp/,
      ],
      [`/api/v4/canister/it/call`, envelopeOf(call), /the path has no principal, but "it"/],
      [`/api/v4/canister/80000000001000010101/call`, envelopeOf(call), /the path has no principal/],
      [CALL, changed(envelopeOf(call), 'sender_sig', Buffer.alloc(64)), /content.sender is anonymous, but/],
      [CALL, changed(envelopeOf(call), 'sender_delegation', 'all'), /sender_delegation is of another kind/],
      [READ, envelopeOf(changed(read, 'paths', [[['x']]])), /content.paths\[0\], a label is of another kind/],
      [READ, envelopeOf(readContent([[label('nothing')]])), /content.paths\[0\] cannot be read here: \/nothing/],
      [READ, envelopeOf(readContent([[]])), /content.paths\[0\] cannot be read here/],
      [READ, envelopeOf(readContent([[label('time'), label('')]])), /cannot be read here: \/time/],
      [READ, envelopeOf(readContent([[label('subnet'), ...'12345'.split('').map(label)]])), /cannot be read here/],
      [
        READ,
        envelopeOf(readContent([[label('request_status'), label('4'.repeat(32)), label('a'), label('b')]])),
        /cannot be/,
      ],
      [READ, envelopeOf(readContent([[label('constructor')]])), /cannot be read here/],
      [READ, envelopeOf(readContent([[label('canister'), OTHER_ID, label('controllers')]])), /cannot be read here/],
      [READ, envelopeOf(readContent([[label('canister'), FIRST_ID]])), /cannot be read here/],
      [READ, envelopeOf(readContent([[label('request_status'), label('short')]])), /cannot be read here/],
      [
        READ,
        envelopeOf(
          changed(
            read,
            'paths',
            Array.from({ length: 1001 }, () => []),
          ),
        ),
        /has 1001 of at most 1000/,
      ],
      [READ, envelopeOf(readContent([Array.from({ length: 128 }, () => label('a'))])), /has 128 of at most 127/],
      [`/api/v3/subnet/${OTHER_TEXT}/read_state`, envelopeOf(read), /the path names no subnet of this host/],
    ];
    for (const [path, body, reason] of cases) {
      const { status, text, type } = await send(server, path, body);
      assert.deepEqual([status, type], [400, 'text/plain; charset=utf-8'], text);
      assert.match(text, reason);
    }
    // Nothing of that was executed.
    assert.equal((await server.post('/query-json/it/get')).body, '[0]');
  });

  test('a sender proves who it is, and delegations say what they allow', async (t) => {
    const server = await startWithActor(t);
    const [alice, bob, session] = [newSigner(), newSigner('P-256'), newSigner('secp256k1')];
    const call = (): Content => contentOf('call', FIRST_ID, 'inc', alice.principal);
    const byBob = (): Content => contentOf('call', FIRST_ID, 'inc', bob.principal);
    const good = envelopeOf(call(), alice);
    const damaged = Buffer.from(good.get('sender_sig') as Uint8Array);
    damaged[5] = (damaged[5] ?? 0) ^ 1;
    const targets = (ids: readonly Uint8Array[]): Map<string, CborValue> => new Map([['targets', ids]]);
    const chain = (...delegations: Parameters<typeof envelopeOf>[3] & object): Content =>
      envelopeOf(call(), session, alice, delegations);
    const wrong = new Map(delegationTo(alice, session));
    wrong.set('signature', Buffer.alloc(64));
    const refusals: readonly (readonly [Content, RegExp])[] = [
      [envelopeOf(call()), /the sender is not anonymous/],
      [changed(good, 'sender_sig', damaged), /sender_sig is not the signature of this request/],
      [changed(good, 'sender_sig', Buffer.alloc(63)), /sender_sig is not the signature/],
      [envelopeOf(call(), bob), /not the key of the sender/],
      [envelopeOf(byBob(), alice, bob), /sender_sig is not the signature/],
      [changed(good, 'sender_pubkey', Buffer.from('key')), /sender_pubkey is no Ed25519/],
      [chain(wrong), /the signature of sender_delegation\[0\] is wrong/],
      [chain(delegationTo(bob, session)), /the signature of sender_delegation\[0\] is wrong/],
      [chain(delegationTo(alice, session, new Map(), Date.now() - 1000)), /sender_delegation\[0\] has expired/],
      [chain(delegationTo(alice, session, targets([OTHER_ID]))), /does not name bkyz2.* among its targets/],
      [chain(delegationTo(alice, session, new Map([['permissions', 'queries']]))), /allows queries only/],
      [chain(delegationTo(alice, session, new Map([['permissions', 'some']]))), /permissions that this host does not/],
      [chain(delegationTo(alice, bob), delegationTo(bob, alice), delegationTo(alice, session)), /is there twice/],
    ];
    for (const [envelope, reason] of refusals) {
      const { status, text } = await send(server, CALL, envelope);
      assert.equal(status, 403, text);
      assert.match(text, reason);
    }
    assert.equal((await server.post('/query-json/it/get')).body, '[0]');
    const allowed = [
      good,
      envelopeOf(byBob(), bob),
      chain(delegationTo(alice, session, targets([OTHER_ID, FIRST_ID]))),
      chain(delegationTo(alice, bob), delegationTo(bob, session, new Map([['permissions', 'all']]))),
    ];
    for (const envelope of allowed) {
      const { status, text, cbor } = await send(server, CALL, envelope);
      assert.equal(status, 200, text);
      assert.equal(cbor?.get('status'), 'replied');
    }
    assert.equal((await server.post('/query-json/it/get')).body, '[4]');
    // A change after the signature is found.
    const stolen = changed(good, 'content', changed(good.get('content') as Content, 'method_name', 'boom'));
    assert.equal((await send(server, CALL, stolen)).status, 403);
  });

  test('rejections have the codes of the specification, certified if something was executed', async (t) => {
    const server = await startWithActor(t);
    const rootKey = await rootKeyOf(server);
    const call = (method: string, path = CALL): Promise<RawAnswer> =>
      send(server, path, envelopeOf(contentOf('call', FIRST_ID, method)));
    const query = (method: string): Promise<RawAnswer> =>
      send(server, QUERY, envelopeOf(contentOf('query', FIRST_ID, method)));
    const refused = 'non_replicated_rejection';
    assert.deepEqual(rejection(await call('missing')), [refused, 5n, 'IC0536']);
    assert.deepEqual(rejection(await call('both')), [refused, 5n, 'IC0536']);
    // Motoko refuses what it does not accept by a trap.
    assert.deepEqual(rejection(await call('closed')), [refused, 5n, 'IC0502']);
    assert.deepEqual(rejection(await call('missing', CALL_2)), [undefined, 5n, 'IC0536']);
    assert.deepEqual(rejection(await call('closed', CALL_2)), [undefined, 5n, 'IC0502']);
    assert.deepEqual(rejection(await query('inc')), ['rejected', 5n, 'IC0536']);
    assert.deepEqual(rejection(await query('http_request')), ['rejected', 5n, 'IC0536']);
    assert.deepEqual(rejection(await query('boomQuery')), ['rejected', 5n, 'IC0502']);
    // The anonymous principal is nobody's controller, also where /install has made it one.
    assert.deepEqual(rejection(await call('__motoko_gc_trigger')), [refused, 5n, 'IC0536']);
    const nobody = await send(
      server,
      `/api/v4/canister/${OTHER_TEXT}/call`,
      envelopeOf(contentOf('call', OTHER_ID, 'inc')),
    );
    assert.deepEqual(rejection(nobody), [refused, 3n, 'IC0301']);
    for (const [method, code, errorCode] of [
      ['fail', 4, 'IC0406'],
      ['boom', 5, 'IC0502'],
    ] as const) {
      const content = contentOf('call', FIRST_ID, method);
      const answer = await send(server, CALL, envelopeOf(content));
      assert.equal(answer.cbor?.get('status'), 'replied');
      const { requestId } = idOf(content);
      const says = certified(answer, rootKey);
      assert.deepEqual(says(['request_status', requestId, 'status']), label('rejected'));
      assert.deepEqual(says(['request_status', requestId, 'reject_code']), Buffer.from([code]));
      assert.deepEqual(says(['request_status', requestId, 'error_code']), label(errorCode));
      assert.equal(says(['request_status', requestId, 'reply']), 'absent');
    }
    await server.post('/stop/it');
    assert.deepEqual(rejection(await call('inc')), [refused, 5n, 'IC0508']);
    assert.deepEqual(rejection(await query('get')), ['rejected', 5n, 'IC0508']);
  });

  test('a request is executed once, and its status is for its sender', async (t) => {
    const server = await startWithActor(t);
    const rootKey = await rootKeyOf(server);
    const [alice, bob] = [newSigner(), newSigner()];
    const content = contentOf('call', FIRST_ID, 'inc', alice.principal);
    const envelope = envelopeOf(content, alice);
    const { requestId } = idOf(content);
    const status = (by: typeof alice): Promise<RawAnswer> =>
      send(server, READ, envelopeOf(readContent([[label('request_status'), requestId]], by.principal), by));
    assert.equal(certified(await status(alice), rootKey)(['request_status', requestId, 'status']), 'absent');
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(server, CALL, envelope)));
    answers.push(
      await send(server, CALL, envelope),
      await send(server, `/api/v3/canister/${FIRST_TEXT}/call`, envelope),
    );
    for (const answer of answers.slice(-3)) {
      const says = certified(answer, rootKey);
      assert.deepEqual(says(['request_status', requestId, 'status']), label('replied'));
      assert.deepEqual(says(['request_status', requestId, 'reply']), Buffer.from('4449444c00017d01', 'hex'));
    }
    assert.ok(answers.every((answer) => answer.cbor?.get('status') === 'replied'));
    assert.equal((await send(server, CALL_2, envelope)).status, 202);
    assert.equal((await server.post('/query-json/it/get')).body, '[1]');
    assert.deepEqual(
      certified(await status(alice), rootKey)(['request_status', requestId, 'status']),
      label('replied'),
    );
    const foreign = await status(bob);
    assert.deepEqual([foreign.status, foreign.text], [403, 'the status of a request is for its sender']);
    // The id stays answered when the actor does not take calls any more.
    await server.post('/stop/it');
    const again = certified(await send(server, CALL, envelope), rootKey);
    assert.deepEqual(again(['request_status', requestId, 'status']), label('replied'));
  });

  test('the subnet and its ranges are certified, and what is not there is proven absent', async (t) => {
    const server = await startWithActor(t);
    const rootKey = await rootKeyOf(server);
    const state = async (
      paths: readonly (readonly Uint8Array[])[],
      path = READ,
    ): Promise<ReturnType<typeof certified>> =>
      stateOf(await send(server, path, envelopeOf(readContent(paths))), rootKey);
    const says = await state([
      [label('time')],
      [label('canister'), FIRST_ID, label('module_hash')],
      [label('canister'), FIRST_ID, label('metadata'), label('nothing')],
    ]);
    assert.ok(Buffer.isBuffer(says(['time'])));
    assert.equal((says(['canister', FIRST_ID, 'module_hash']) as Buffer).length, 32);
    assert.equal(says(['canister', FIRST_ID, 'metadata', 'nothing']), 'absent');
    const other = [label('canister'), OTHER_ID, label('module_hash')];
    assert.equal((await state([other], `/api/v2/canister/${OTHER_TEXT}/read_state`))(other), 'absent');
    const subnet = await state([[label('subnet')]]);
    assert.equal(subnet(['subnet']), 'branch');
    assert.equal(subnet(['subnet', Uint8Array.of(1)]), 'absent');
  });

  test('the token goes with Basic credentials, and only where it is asked for', async (t) => {
    const token = { authorization: 'Bearer secret' };
    const args = ['--auth-token', 'secret'];
    const guarded = await startWithActor(t, args, token);
    const call = (): Content => envelopeOf(contentOf('call', FIRST_ID, 'inc'));
    const basic = (text: string): Record<string, string> => ({
      authorization: `Basic ${Buffer.from(text).toString('base64')}`,
    });
    for (const headers of [{}, basic('any:wrong'), basic('secret'), { authorization: 'Basic !' }]) {
      const { status, text } = await send(guarded, CALL, call(), headers);
      assert.deepEqual([status, text], [401, 'missing or wrong bearer token']);
    }
    for (const headers of [token, basic('any:secret'), basic(':secret')])
      assert.equal((await send(guarded, CALL, call(), headers)).status, 200);
    // Elsewhere they are none.
    assert.equal((await guarded.get('/actors', basic('any:secret'))).status, 401);
    assert.equal((await guarded.get('/api/v2/status')).status, 401);
    const open = await startWithActor(t, ['--agents', 'open', '--auth-token', 'secret'], token);
    assert.equal((await send(open, CALL, call())).status, 200);
    assert.equal((await open.get('/actors')).status, 401);
    // A section that the module keeps to its controllers is not for strangers.
    const asked = envelopeOf(readContent([[label('canister'), FIRST_ID, label('metadata'), label('candid:service')]]));
    assert.equal((await send(open, READ, asked)).status, 403);
    assert.equal((await send(guarded, READ, asked, token)).status, 200);
    const large = await send(open, CALL, new Uint8Array(4 * 1024 * 1024 + 1));
    assert.equal(large.status, 413);
  });

  test('there is no such interface where it is turned off', async (t) => {
    for (const args of [['--agents', 'off'], ['--no-agents']]) {
      const server = await startWithActor(t, args);
      const { status, text } = await send(server, CALL, envelopeOf(contentOf('call', FIRST_ID, 'inc')));
      assert.equal(status, 404);
      assert.match(text, /the agent interface is off: start the server with --agents guarded/);
      assert.match((await server.get('/api/v1/status')).body, /no such path/);
    }
  });
});

function stateOf(answer: RawAnswer, rootKey: Uint8Array): ReturnType<typeof certified> {
  assert.equal(answer.status, 200, answer.text);
  return certified(answer, rootKey);
}

function idOf(content: Content): { readonly requestId: Uint8Array } {
  return { requestId: hashOfMap(content) };
}
