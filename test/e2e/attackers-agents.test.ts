/**
 * Attackers with a part of the rights try every shape of `/api`: credentials of other routes, delegations that name
 * targets or allow queries only, strangers and the anonymous sender. New routes and new management methods are tried by
 * themselves. Routes that differ in their version are tried in turn; `npm run prove -- agents` tries every version
 * with everything.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Agent } from 'node:http';
import { after, suite, test, type TestContext } from 'node:test';
import { type CborMap, type CborValue, decodeCbor, hashOfMap } from '../../subsystems/certification/index.ts';
import { createCodec } from '../../subsystems/codec/codec.ts';
import { AGENT_ROUTES } from '../../subsystems/http/agent-routes.ts';
import { principalToText } from '../../subsystems/ic/index.ts';
import { MANAGEMENT_DID } from '../../subsystems/management/interface-did.ts';
import {
  type Content,
  contentOf,
  delegationTo,
  envelopeOf,
  newSigner,
  type RawAnswer,
  readContent,
  rootKeyOf,
  send,
  sendKept,
} from '../subsystems/agents/raw-agent.ts';
import { lookup, treeOf } from '../subsystems/certification/specified-tree.ts';
import { ProofSeeds } from '../support/proof-seeds.ts';
import { showing } from '../support/token-file.ts';
import { type AttackedHost, BANK_HEX, ROOT, SHOP_HEX, startAttacked } from './attacked-host.ts';

const idOf = (hex: string): Uint8Array => Buffer.from(hex, 'hex');
const [SHOP, BANK, NOBODY] = [idOf(SHOP_HEX), idOf(BANK_HEX), idOf('80000000001000ff0101')] as const;
const MANAGEMENT = new Uint8Array();
const INTERNAL = '__motoko_gc_trigger';
const { methods: MANAGED } = createCodec().parseInterface(MANAGEMENT_DID);

/** Thousands of requests are sent: `fetch` takes twice the time. */
const connections = new Agent({ keepAlive: true });
after(() => connections.destroy());

const IS_PROOF = new ProofSeeds(1).count > 1;

type Signer = ReturnType<typeof newSigner>;
type Kind = 'call' | 'query' | 'read_state';

/** Someone who sends envelopes. */
interface Sender {
  readonly principal: Uint8Array;
  readonly seal: (content: Content) => Content;
}

const ANONYMOUS: Sender = { principal: Uint8Array.of(4), seal: (content) => envelopeOf(content) };
const signing = (signer: Signer): Sender => ({
  principal: signer.principal,
  seal: (content) => envelopeOf(content, signer),
});

/** Returns who has a session of the owner's, with these terms. */
function delegated(owner: Signer, terms: ReadonlyMap<string, CborValue>): Sender {
  const session = newSigner();
  const chain = [delegationTo(owner, session, terms)];
  return { principal: owner.principal, seal: (content) => envelopeOf(content, session, owner, chain) };
}

/** A request to try, and the canister that it is about. */
interface Attempt {
  readonly kind: Kind;
  readonly target: Uint8Array;
  readonly what: string;
  readonly subject: Uint8Array;
  readonly content: (sender: Uint8Array) => Content;
}

/** Fields that arguments of management methods have beside the canister's id. */
const FIELDS: Readonly<Record<string, object>> = {
  update_settings: { settings: { controllers: ['2vxsx-fae'] } },
  install_code: { mode: { reinstall: null }, wasm_module: '', arg: '' },
  upload_chunk: { chunk: 'AA==' },
  canister_metadata: { name: 'candid:service' },
  provisional_top_up_canister: { amount: 5 },
  load_canister_snapshot: { snapshot_id: 'AAAA' },
  delete_canister_snapshot: { snapshot_id: 'AAAA' },
  read_canister_snapshot_metadata: { snapshot_id: 'AAAA' },
  read_canister_snapshot_data: { snapshot_id: 'AAAA', kind: { wasm_module: { offset: 0, size: 1 } } },
  upload_canister_snapshot_data: { snapshot_id: 'AAAA', kind: { wasm_module: { offset: 0 } }, chunk: '' },
  upload_canister_snapshot_metadata: {
    wasm_module_size: 1,
    globals: [],
    wasm_memory_size: 0,
    stable_memory_size: 0,
    certified_data: '',
  },
};
const ECDSA = { derivation_path: [], key_id: { curve: { secp256k1: null }, name: 'key_1' } };
const SCHNORR = { derivation_path: [], key_id: { algorithm: { ed25519: null }, name: 'key_1' } };
const HASH = Buffer.alloc(32).toString('base64');
/** Whole arguments of those that have no id of that name. */
const WHOLE: Readonly<Record<string, (id: string) => readonly object[]>> = {
  create_canister: () => [{}],
  provisional_create_canister_with_cycles: () => [{ amount: 5 }],
  install_chunked_code: (id) => [
    { mode: { reinstall: null }, target_canister: id, chunk_hashes_list: [], wasm_module_hash: HASH, arg: '' },
  ],
  raw_rand: () => [],
  list_canisters: () => [],
  ecdsa_public_key: () => [ECDSA],
  schnorr_public_key: () => [SCHNORR],
  sign_with_ecdsa: () => [{ ...ECDSA, message_hash: HASH }],
  sign_with_schnorr: () => [{ ...SCHNORR, message: HASH }],
  http_request: () => [{ url: 'https://127.0.0.1:1/', method: { get: null }, headers: [] }],
  node_metrics_history: (id) => [{ subnet_id: id, start_at_timestamp_nanos: 0 }],
  subnet_info: (id) => [{ subnet_id: id }],
};

function managed(method: string, subject: Uint8Array, kind: 'call' | 'query'): Attempt {
  const id = principalToText(subject);
  const values = WHOLE[method]?.(id) ?? [{ canister_id: id, ...FIELDS[method] }];
  const types = MANAGED.get(method) ?? assert.fail(method);
  const argument = Buffer.from(types.args.encode(Buffer.from(JSON.stringify(values)), { lossless: false }));
  const content = (sender: Uint8Array): Content =>
    new Map(contentOf(kind, MANAGEMENT, method, sender)).set('arg', argument);
  return { kind, target: MANAGEMENT, what: method, subject, content };
}

/** Returns all that can be tried. `foreign`: the id of somebody else's request. */
function attempts(foreign: Uint8Array): readonly Attempt[] {
  const all: Attempt[] = [];
  for (const target of [SHOP, BANK, NOBODY])
    for (const [kind, what] of [
      ['call', 'inc'],
      ['call', INTERNAL],
      ['query', 'get'],
      ['query', 'inc'],
    ] as const)
      all.push({ kind, target, what, subject: target, content: (sender) => contentOf(kind, target, what, sender) });
  for (const method of MANAGED.keys())
    for (const subject of [SHOP, BANK])
      for (const kind of ['call', 'query'] as const) all.push(managed(method, subject, kind));
  for (const subject of [SHOP, BANK, NOBODY, MANAGEMENT])
    for (const [what, path] of [
      ['time', ['time']],
      ['subnet', ['subnet']],
      ['controllers', ['canister', subject, 'controllers']],
      ['section', ['canister', subject, 'metadata', 'motoko:stable-types']],
      ['foreign status', ['request_status', foreign]],
    ] as const) {
      const labels = path.map((label) => (typeof label === 'string' ? Buffer.from(label) : label));
      const content = (sender: Uint8Array): Content => readContent([labels], sender);
      all.push({ kind: 'read_state', target: subject, what, subject, content });
    }
  return all;
}

/** Returns true if the answer gives nothing: an error, or a rejection, certified or not. */
function isRefused({ status, cbor }: RawAnswer, content: Content): boolean {
  if (status !== 200) return status >= 400;
  if (cbor?.has('reject_code') === true) return true;
  if (content.get('request_type') === 'query') return false;
  const certificate = decodeCbor(cbor?.get('certificate') as Uint8Array) as CborMap;
  const [[name = MANAGEMENT, id = MANAGEMENT] = []] = (content.get('paths') ??
    []) as readonly (readonly Uint8Array[])[];
  const isStatus = Buffer.from(name).toString() === 'request_status';
  const path = [Buffer.from('request_status'), isStatus ? id : hashOfMap(content), Buffer.from('status')];
  const found = lookup(treeOf(certificate.get('tree')), path);
  return String(found) === 'rejected' || (isStatus && found === 'absent');
}

/** Returns true if the attempt of that number is made at a route of this version. */
function isTurnOf({ route, version }: { readonly route: string; readonly version: number }, at: number): boolean {
  const versions = AGENT_ROUTES.flatMap(({ agent }) => (agent?.route === route ? [agent.version] : []));
  // Calls and queries take turns in the list: each pair of them is of one turn.
  return IS_PROOF || versions[(at >> 1) % versions.length] === version;
}

/** Resolves with a description of each attempt that the host answers though it should not. */
async function tryAll(
  { server }: AttackedHost,
  tried: readonly Attempt[],
  { principal, seal }: Sender,
  mayHave: (one: Attempt, id: Uint8Array) => boolean,
  headers: Readonly<Record<string, string>> = {},
): Promise<readonly string[]> {
  const subnet = Buffer.concat([
    createHash('sha224')
      .update(await rootKeyOf(server, ROOT))
      .digest(),
    Uint8Array.of(2),
  ]);
  const given: string[] = [];
  for (const [at, one] of tried.entries())
    for (const { path, agent } of AGENT_ROUTES) {
      const { kind, target, what, subject, content } = one;
      if (agent === undefined || !isTurnOf(agent, at)) continue;
      // At a route of another kind one place is enough, and for calls to the management canister two.
      const isFitting = agent.route.endsWith(kind);
      const few = target.length === 0 && kind !== 'read_state' ? [subject, MANAGEMENT, subnet] : undefined;
      const ids = isFitting ? (few ?? [SHOP, BANK, NOBODY, MANAGEMENT, subnet]) : [subject];
      for (const id of ids.filter((each) => !isFitting || !mayHave(one, each))) {
        const asked = content(principal);
        const place = path.replace(':principal', principalToText(id));
        const answer = await sendKept(server, connections, place, seal(asked), headers);
        if (!isRefused(answer, asked)) given.push(`${what} of ${principalToText(subject)} at ${place}`);
      }
    }
  return given;
}

/** Tries each at the place where it belongs; returns what was refused. */
async function tryRight(
  { server }: AttackedHost,
  tried: readonly Attempt[],
  { principal, seal }: Sender,
): Promise<readonly string[]> {
  const refused: string[] = [];
  for (const { kind, what, subject, content } of tried) {
    const asked = content(principal);
    const answer = await send(server, `/api/v3/canister/${principalToText(subject)}/${kind}`, seal(asked));
    if (isRefused(answer, asked)) refused.push(`${what} of ${principalToText(subject)}: ${answer.text}`);
  }
  return refused;
}

async function start(t: TestContext, agents: 'guarded' | 'open') {
  const may = ['call:*', 'query:*', 'upgrade:*', 'delete:*', 'configure:*', 'inspect', 'backup'];
  const host = await startAttacked(t, { agents, tokens: { most: { may } }, may: 'call:*,query:*' });
  const other = signing(newSigner());
  const content = contentOf('call', SHOP, 'inc', other.principal);
  await send(host.server, `/api/v3/canister/${principalToText(SHOP)}/call`, other.seal(content), ROOT);
  return { host, tried: attempts(hashOfMap(content)) };
}

const isOf = (...ids: readonly Uint8Array[]): ((subject: Uint8Array) => boolean) => {
  const texts = ids.map(principalToText);
  return (subject) => texts.includes(principalToText(subject));
};

/** Tells whether anybody may have that of a host that is open: public methods, and what is public of the state. */
function isPublic({ kind, target, what, subject }: Attempt): boolean {
  const isActor = isOf(SHOP, BANK)(subject);
  if (kind !== 'read_state') return isActor && target.length > 0 && what === (kind === 'call' ? 'inc' : 'get');
  return what !== 'foreign status' && (what !== 'section' || !isActor);
}

suite('an attacker on every shape of /api', () => {
  test('guarded: a part of the rights opens none, whoever has signed', async (t) => {
    const { host, tried } = await start(t, 'guarded');
    const owner = signing(host.owner);
    const tenth = tried.filter((_one, at) => at % 10 === 0);
    const before = await host.state();
    for (const headers of [showing('most'), host.jwt, {}, { authorization: 'Bearer wrong' }]) {
      assert.deepEqual(await tryAll(host, tenth, owner, () => false, headers), []);
      assert.ok([401, 403].includes((await host.server.fetch('/api/v2/status', { headers })).status));
    }
    assert.deepEqual(await host.state(), before);
  });

  for (const [name, kind] of [
    ['a delegation with a target', 'targets'],
    ['a delegation for queries', 'queries'],
    ['a stranger who signs', 'stranger'],
    ['the anonymous sender', 'anonymous'],
  ] as const)
    test(`open: ${name} gets exactly what it may`, async (t) => {
      const { host, tried: all } = await start(t, 'open');
      // The actor's inspection refuses the internal method to controllers as well, and is an execution.
      const tried = kind === 'targets' ? all.filter(({ what }) => what !== INTERNAL) : all;
      const { owner } = host;
      const sender = {
        targets: delegated(owner, new Map([['targets', [SHOP]]])),
        queries: delegated(owner, new Map([['permissions', 'queries']])),
        stranger: signing(newSigner()),
        anonymous: ANONYMOUS,
      }[kind];
      /** Queries of the management canister that its controllers may ask. */
      const asked = ['canister_status', 'canister_metrics', 'fetch_canister_logs'];
      const mayHave = (one: Attempt, id = one.subject): boolean => {
        const isAnybodys = one.what === 'time' || one.what === 'subnet';
        if (!isAnybodys && !isOf(one.subject)(id)) return false;
        if (kind === 'stranger' || kind === 'anonymous') return isPublic(one);
        if (kind === 'targets' && !isOf(SHOP)(one.kind === 'read_state' ? id : one.target)) return false;
        if (one.kind === 'read_state') return one.what !== 'foreign status';
        const isActors = isOf(SHOP, BANK)(one.target);
        if (one.kind === 'query') return isActors ? one.what === 'get' : kind === 'queries' && asked.includes(one.what);
        return kind === 'targets' && isActors && one.what === 'inc';
      };
      const before = await host.state();
      assert.deepEqual(await tryAll(host, tried, sender, mayHave), []);
      assert.deepEqual(await host.state(), before);
      assert.deepEqual(
        await tryRight(
          host,
          tried.filter((one) => mayHave(one)),
          sender,
        ),
        [],
      );
    });
});
