/** Canisters of the Internet Computer that the host answers for: by users at `/api`, and by actors. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { CYCLES_LEDGER_DID, ICP_LEDGER_DID, MINTING_DID } from '../../../subsystems/ic-facade/interfaces.ts';
import { principalFromText, principalToText } from '../../../subsystems/ic/index.ts';
import { MANAGEMENT_DID } from '../../../subsystems/management/interface-did.ts';
import { type InProcessServer, startInProcess } from '../../support/in-process-server.ts';
import { compileMotoko } from '../../support/motoko.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';
import {
  certified,
  type Content,
  contentOf,
  envelopeOf,
  newSigner,
  type RawAnswer,
  rootKeyOf,
  send,
} from '../agents/raw-agent.ts';
import { hashOfMap } from '../../../subsystems/certification/index.ts';

const LEDGER = 'um5iw-rqaaa-aaaaq-qaaba-cai';
const ICP = 'ryjl3-tyaaa-aaaaa-aaaba-cai';
const MINTING = 'rkp4c-7iaaa-aaaaa-aaaca-cai';
const NO_ONE = principalToText(Uint8Array.of(1));
const PLAIN = { lossless: false };
const codec = createCodec();
const INTERFACES = new Map(
  Object.entries({
    [LEDGER]: CYCLES_LEDGER_DID,
    [ICP]: ICP_LEDGER_DID,
    [MINTING]: MINTING_DID,
    'aaaaa-aa': MANAGEMENT_DID,
  }).map(([id, did]) => [id, codec.parseInterface(did).methods] as const),
);

type Signer = ReturnType<typeof newSigner>;

interface Asked {
  readonly canister: string;
  readonly method: string;
  readonly argument?: unknown;
  readonly signer?: Signer | undefined;
  readonly type?: 'call' | 'query';
}

function typesOf({ canister, method }: Pick<Asked, 'canister' | 'method'>) {
  return INTERFACES.get(canister)?.get(method) ?? assert.fail(`${canister} has no ${method}`);
}

function contentFor({ canister, method, argument, signer, type = 'call' }: Asked): Content {
  const json = Buffer.from(JSON.stringify(argument === undefined ? [] : [argument]));
  const content = contentOf(type, principalFromText(canister), method, signer?.principal);
  return new Map(content).set('arg', Buffer.from(typesOf({ canister, method }).args.encode(json, PLAIN)));
}

function valueOf(asked: Asked, data: unknown): unknown {
  assert.ok(data instanceof Uint8Array, String(data));
  return (JSON.parse(Buffer.from(typesOf(asked).results.decode(data, PLAIN)).toString()) as readonly unknown[])[0];
}

/** Returns the certified or signed result; for what was never accepted, its error code. */
async function resultOf(
  server: InProcessServer,
  asked: Asked,
  content: Content,
  path = asked.canister,
): Promise<unknown> {
  const isQuery = asked.type === 'query';
  const way = `/api/${isQuery ? 'v3' : 'v4'}/canister/${path}/${isQuery ? 'query' : 'call'}`;
  const answer: RawAnswer = await send(server, way, envelopeOf(content, asked.signer));
  assert.equal(answer.status, 200, answer.text);
  const code = answer.cbor?.get('error_code');
  if (code !== undefined) return code;
  const reply = answer.cbor?.get('reply');
  if (isQuery) return valueOf(asked, reply instanceof Map ? reply.get('arg') : reply);
  const found = certified(answer, await rootKeyOf(server));
  const status = (name: string): unknown => found(['request_status', hashOfMap(content), name]);
  const rejected = status('error_code');
  if (rejected instanceof Uint8Array) return Buffer.from(rejected).toString();
  return valueOf(asked, status('reply'));
}

const ask = (server: InProcessServer, asked: Asked): Promise<unknown> => resultOf(server, asked, contentFor(asked));

function creation(signer: Signer | undefined, more: object = {}): Asked {
  const argument = {
    from_subaccount: null,
    created_at_time: null,
    amount: '3000000000000',
    creation_args: null,
    ...more,
  };
  return { canister: LEDGER, method: 'create_canister', argument, signer };
}

interface Created {
  readonly Ok: { readonly canister_id: string };
}

interface Status {
  readonly cycles: number | string;
  readonly settings: { readonly controllers: readonly string[]; readonly freezing_threshold: number };
}

async function statusOf(server: InProcessServer, id: string, signer: Signer): Promise<Status> {
  const asked: Asked = { canister: 'aaaaa-aa', method: 'canister_status', argument: { canister_id: id }, signer };
  return (await resultOf(server, asked, contentFor(asked), id)) as Status;
}

suite('the facade at /api', () => {
  test('creates canisters with cycles and settings, for whoever may create them', async (t) => {
    const server = await startInProcess(t);
    const [signer, other] = [newSigner(), newSigner()];
    const { Ok: made } = (await ask(server, creation(signer))) as Created;
    const status = await statusOf(server, made.canister_id, signer);
    assert.deepEqual(status.settings.controllers, [principalToText(signer.principal)]);
    assert.equal(Number(status.cycles), 3e12);
    const controllers = [signer, other].map(({ principal }) => principalToText(principal));
    const settings = { controllers, freezing_threshold: 7 };
    const args = { creation_args: { subnet_selection: null, settings } };
    const { Ok: shared } = (await ask(server, creation(signer, args))) as Created;
    const theirs = await statusOf(server, shared.canister_id, other);
    assert.deepEqual([...theirs.settings.controllers].sort(), [...controllers].sort());
    assert.equal(theirs.settings.freezing_threshold, 7);
    assert.equal(await ask(server, creation(undefined)), 'IC0512');
    const many = { controllers: Array.from({ length: 11 }, (_, index) => principalToText(Uint8Array.of(index, 1))) };
    const refused = await ask(server, creation(signer, { creation_args: { subnet_selection: null, settings: many } }));
    assert.match(JSON.stringify(refused), /FailedToCreate.*11 controllers: at most 10/);

    const strangers = await startInProcess(t, { args: ['--agents', 'open'] });
    assert.equal(await ask(strangers, creation(signer)), 'IC0512');
    const withdraw = { canister: LEDGER, method: 'withdraw', signer: other };
    const amount = { amount: 1, from_subaccount: null, created_at_time: null };
    assert.equal(await ask(strangers, { ...withdraw, argument: { ...amount, to: NO_ONE } }), 'IC0301');
  });

  test('a creation that comes again is answered with the same canister, also by the next process', async (t) => {
    const args = ['--state', await temporaryDirectory()];
    const asked = creation(newSigner());
    const content = contentFor(asked);
    const before = await startInProcess(t, { args });
    const answers = await Promise.all([1, 2, 3].map(() => resultOf(before, asked, content)));
    await before.stop();
    const after = await startInProcess(t, { args });
    answers.push(await resultOf(after, asked, content));
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
    assert.equal((JSON.parse((await after.get('/inspect')).body) as readonly unknown[]).length, 1);
  });

  test('money is no object: balances stay, transfers have numbers, and ICP becomes cycles once', async (t) => {
    const server = await startInProcess(t);
    const signer = newSigner();
    const owner = principalToText(signer.principal);
    const account = { owner, subaccount: null };
    const read = (canister: string, method: string, argument?: unknown): Promise<unknown> =>
      ask(server, { canister, method, argument, signer, type: 'query' });
    const rich = (value: unknown): bigint => BigInt(String(value));
    assert.equal(rich(await read(LEDGER, 'icrc1_balance_of', account)), 10n ** 30n);
    assert.deepEqual(
      await Promise.all(['icrc1_fee', 'icrc1_decimals', 'icrc1_symbol'].map((method) => read(LEDGER, method))),
      [100_000_000, 12, 'TCYCLES'],
    );
    assert.deepEqual(
      await Promise.all(['icrc1_fee', 'icrc1_decimals', 'icrc1_symbol'].map((method) => read(ICP, method))),
      [10_000, 8, 'ICP'],
    );
    const rest = { fee: null, memo: null, from_subaccount: null, created_at_time: null };
    const transfer: Asked = {
      canister: LEDGER,
      method: 'icrc1_transfer',
      argument: { to: account, amount: '5', ...rest },
      signer,
    };
    const [one, two] = [await ask(server, transfer), await ask(server, transfer)] as { readonly Ok: number }[];
    assert.equal(Number(two?.Ok), Number(one?.Ok) + 1);
    assert.equal(rich(await read(LEDGER, 'icrc1_balance_of', account)), 10n ** 30n);

    const tooMuch = { ...transfer, argument: { to: account, amount: `1${'0'.repeat(31)}`, ...rest } };
    assert.match(JSON.stringify(await ask(server, tooMuch)), /InsufficientFunds/);

    const pay: Asked = {
      canister: ICP,
      method: 'transfer',
      argument: {
        to: '',
        amount: { e8s: 150_000_000 },
        fee: { e8s: 10_000 },
        memo: 0,
        from_subaccount: null,
        created_at_time: null,
      },
      signer,
    };
    const { Ok: block } = (await ask(server, pay)) as { readonly Ok: number };
    const notify: Asked = {
      canister: MINTING,
      method: 'notify_mint_cycles',
      argument: { block_index: block, to_subaccount: null, deposit_memo: null },
      signer,
    };
    const { Ok: minted } = (await ask(server, notify)) as { readonly Ok: { readonly minted: number } };
    assert.equal(minted.minted, 1.5e12);
    assert.match(JSON.stringify(await ask(server, notify)), /InvalidTransaction.*no transfer of ICP in block/);
    const { Ok: second } = (await ask(server, pay)) as { readonly Ok: number };
    const create = { block_index: second, controller: owner, subnet_selection: null, settings: null };
    const made = await ask(server, { canister: MINTING, method: 'notify_create_canister', argument: create, signer });
    const { Ok: id } = made as { readonly Ok: string };
    assert.equal(Number((await statusOf(server, id, signer)).cycles), 1.5e12);
    const top = { amount: '2000000000000', from_subaccount: null, to: id, created_at_time: null };
    await ask(server, { canister: LEDGER, method: 'withdraw', argument: top, signer });
    assert.equal(Number((await statusOf(server, id, signer)).cycles), 3.5e12);
    const { hash_tree: tree } = (await read(MINTING, 'get_icp_xdr_conversion_rate')) as { readonly hash_tree: string };
    assert.equal(tree, '');
  });

  test('names the subnet that the root key makes', async (t) => {
    const server = await startInProcess(t);
    const asked: Asked = { canister: MINTING, method: 'get_default_subnets', type: 'query' };
    const [subnet, ...others] = (await ask(server, asked)) as readonly string[];
    assert.deepEqual(others, []);
    const facts = await send(
      server,
      `/api/v3/subnet/${subnet}/read_state`,
      envelopeOf(
        new Map(
          [...contentOf('call', new Uint8Array(), '')].filter(
            ([key]) => key !== 'arg' && key !== 'canister_id' && key !== 'method_name',
          ),
        )
          .set('request_type', 'read_state')
          .set('paths', [[Buffer.from('time')]]),
      ),
    );
    assert.equal(facts.status, 200, facts.text);
  });

  test('refuses methods and arguments that it does not know, and reads no list without end', async (t) => {
    const server = await startInProcess(t);
    const signer = newSigner();
    const asked: Asked = { canister: LEDGER, method: 'icrc1_fee', signer };
    const missing = new Map(contentFor(asked)).set('method_name', 'mint');
    assert.equal(await resultOf(server, asked, missing), 'IC0536');
    const updateAsQuery = new Map(contentFor({ ...creation(signer), type: 'query' }));
    assert.equal(await resultOf(server, { ...creation(signer), type: 'query' }, updateAsQuery), 'IC0536');
    for (const bytes of ['', 'DIDL', '4449444c0001', '4449444c016c0001']) {
      const broken = new Map(contentFor(creation(signer))).set(
        'arg',
        Buffer.from(bytes, bytes === 'DIDL' ? 'latin1' : 'hex'),
      );
      assert.equal(await resultOf(server, creation(signer), broken), 'IC0503', bytes);
    }
    const variables = Array.from({ length: 70_000 }, () => ({ name: '', value: '' }));
    const settings = { environment_variables: variables };
    const large = creation(signer, { creation_args: { subnet_selection: null, settings } });
    assert.equal(await ask(server, large), 'IC0503');
    assert.equal(
      await ask(server, {
        canister: LEDGER,
        method: 'deposit',
        argument: { to: { owner: NO_ONE, subaccount: null }, memo: null },
        signer,
      }),
      'IC0406',
    );
  });

  test('is not there with --no-ic-facade, and where an actor has the id', async (t) => {
    const signer = newSigner();
    const without = await startInProcess(t, { args: ['--no-ic-facade'] });
    assert.equal(await ask(without, creation(signer)), 'IC0301');
    const server = await startInProcess(t);
    const provisional: Asked = {
      canister: 'aaaaa-aa',
      method: 'provisional_create_canister_with_cycles',
      argument: { amount: null, settings: null, specified_id: LEDGER, sender_canister_version: null },
      signer,
    };
    assert.deepEqual(await ask(server, provisional), { canister_id: LEDGER });
    assert.equal(await ask(server, creation(signer)), 'IC0537');
  });

  test('its changes are told to the audit', async (t) => {
    const server = await startInProcess(t, { args: ['--audit'] });
    await ask(server, creation(newSigner()));
    await ask(server, { canister: LEDGER, method: 'icrc1_fee', type: 'query' });
    const told = server.log.events.filter(({ event }) => event === 'audit').map(({ fields }) => fields);
    assert.deepEqual(
      told.map(({ route, outcome }) => [route, outcome]),
      ['begun', 'done'].map((outcome) => [`POST /api ${LEDGER} create_canister`, outcome]),
    );
  });
});

suite('the facade for actors', () => {
  test('takes their cycles, tells balances, and creates nothing for them', async (t) => {
    const server = await startInProcess(t);
    const { wasm } = await compileMotoko(
      `
      import Cycles "mo:core/Cycles";
      import Error "mo:core/Error";
      persistent actor It {
        type Account = { owner : Principal; subaccount : ?Blob };
        transient let ledger = actor "${LEDGER}" : actor {
          deposit : ({ to : Account; memo : ?Blob }) -> async { balance : Nat; block_index : Nat };
          icrc1_balance_of : query Account -> async Nat;
          withdraw : ({ amount : Nat; from_subaccount : ?Blob; to : Principal; created_at_time : ?Nat64 }) -> async ();
          nothing : () -> async ();
        };
        func account() : Account { { owner = Principal.fromActor(It); subaccount = null } };
        public func give(cycles : Nat) : async (Nat, Nat) {
          let before = Cycles.balance();
          let { balance } = await (with cycles) ledger.deposit({ to = account(); memo = null });
          (before - Cycles.balance(), balance);
        };
        public func balance() : async Nat { await ledger.icrc1_balance_of(account()) };
        public composite query func ask() : async Nat { await ledger.icrc1_balance_of(account()) };
        public func refused(cycles : Nat) : async (Text, Text, Nat) {
          let before = Cycles.balance();
          let one = try {
            let to = Principal.fromActor(It);
            await (with cycles) ledger.withdraw({ amount = 1; from_subaccount = null; to; created_at_time = null });
            "";
          } catch e Error.message(e);
          let other = try { await (with cycles) ledger.nothing(); "" } catch e Error.message(e);
          (one, other, before - Cycles.balance());
        };
      };`.replace('import Cycles', 'import Principal "mo:core/Principal";\n      import Cycles'),
    );
    assert.equal((await server.post('/install/it', wasm)).status, 200);
    const call = async (method: string, args: readonly unknown[] = []): Promise<readonly unknown[]> => {
      const { status, body } = await server.post(`/call-json/it/${method}`, JSON.stringify(args));
      assert.equal(status, 200, body);
      return JSON.parse(body) as readonly unknown[];
    };
    const [spent, balance] = await call('give', [10 ** 12]);
    assert.ok(Number(spent) >= 1e12 && Number(spent) < 1.01e12, String(spent));
    assert.equal(Number(balance), 1e30);
    assert.equal(Number((await call('balance'))[0]), 1e30);
    const asked = await server.post('/query-json/it/ask');
    assert.equal(asked.status, 200, asked.body);
    const [withdraw, nothing, kept] = await call('refused', [10 ** 12]);
    assert.match(String(withdraw), /withdraw of um5iw.* is for users at \/api/);
    assert.match(String(nothing), /IC0536: Canister um5iw.* has no update method 'nothing'/);
    assert.ok(Number(kept) < 1e10, String(kept));
  });

  test('without it, the ids are those of nobody', async (t) => {
    const server = await startInProcess(t, { args: ['--no-ic-facade'] });
    const { wasm } = await compileMotoko(`
      import Error "mo:core/Error";
      persistent actor {
        transient let ledger = actor "${LEDGER}" : actor { icrc1_fee : query () -> async Nat };
        public func fee() : async Text { try { ignore await ledger.icrc1_fee(); "" } catch e Error.message(e) };
      };`);
    assert.equal((await server.post('/install/it', wasm)).status, 200);
    assert.match((await server.post('/call-json/it/fee')).body, /No route to canister um5iw/);
  });
});
