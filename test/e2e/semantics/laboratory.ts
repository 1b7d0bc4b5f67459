/**
 * Actors that run a test's list of calls (`script-canister.ts`). Another actor, the proxy, is their controller: it
 * makes and changes them through the management canister.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { IDL } from '@dfinity/candid';
import { Principal } from '@dfinity/principal';
import {
  type Call,
  callbackFunction,
  encodeScript,
  keeping,
  RESULTS_AT,
  BLOB_AT,
  scriptModule,
  slotAt,
} from '../../subsystems/execution/script-canister.ts';
import { wat } from '../../support/wat.ts';
import { type Actor, type Failure, type Host } from './host.ts';

const PROXY = wat(await readFile(new URL('./actors/proxy.wat', import.meta.url), 'utf8'));
export const WIDTH = 32;
export const MODULE = scriptModule(WIDTH, { inspects: false });
const MANAGEMENT = new Uint8Array(0);
/** Candid message without values. */
export const NOTHING = Buffer.from('4449444c0000', 'hex');

interface Answer {
  /** Reject code; 0: a reply. */
  readonly code: number;
  readonly refunded: bigint;
  readonly data: Buffer;
}

/** Types of the management canister's arguments, as far as the tests use them. */
const ID = { canister_id: IDL.Principal };
const MODE = IDL.Variant({
  install: IDL.Null,
  reinstall: IDL.Null,
  upgrade: IDL.Opt(
    IDL.Record({
      skip_pre_upgrade: IDL.Opt(IDL.Bool),
      wasm_memory_persistence: IDL.Opt(IDL.Variant({ keep: IDL.Null, replace: IDL.Null })),
    }),
  ),
});
const HASH = IDL.Record({ hash: IDL.Vec(IDL.Nat8) });
const ARGUMENTS: Readonly<Record<string, IDL.Type>> = {
  provisional_create_canister_with_cycles: IDL.Record({ amount: IDL.Opt(IDL.Nat) }),
  install_code: IDL.Record({ ...ID, mode: MODE, wasm_module: IDL.Vec(IDL.Nat8), arg: IDL.Vec(IDL.Nat8) }),
  upload_chunk: IDL.Record({ ...ID, chunk: IDL.Vec(IDL.Nat8) }),
  install_chunked_code: IDL.Record({
    target_canister: IDL.Principal,
    mode: MODE,
    chunk_hashes_list: IDL.Vec(HASH),
    wasm_module_hash: IDL.Vec(IDL.Nat8),
    arg: IDL.Vec(IDL.Nat8),
  }),
  update_settings: IDL.Record({
    ...ID,
    settings: IDL.Record({
      wasm_memory_limit: IDL.Opt(IDL.Nat),
      wasm_memory_threshold: IDL.Opt(IDL.Nat),
      minimum_incoming_canister_call_cycles: IDL.Opt(IDL.Nat),
    }),
  }),
  load_canister_snapshot: IDL.Record({ ...ID, snapshot_id: IDL.Vec(IDL.Nat8) }),
};
const RESULTS: Readonly<Record<string, IDL.Type>> = {
  provisional_create_canister_with_cycles: IDL.Record(ID),
  upload_chunk: HASH,
  stored_chunks: IDL.Vec(HASH),
  take_canister_snapshot: IDL.Record({ id: IDL.Vec(IDL.Nat8) }),
  canister_status: IDL.Record({ version: IDL.Nat64 }),
  fetch_canister_logs: IDL.Record({ canister_log_records: IDL.Vec(IDL.Record({ content: IDL.Vec(IDL.Nat8) })) }),
};

type Settings = Partial<
  Record<'wasm_memory_limit' | 'wasm_memory_threshold' | 'minimum_incoming_canister_call_cycles', number>
>;
type Mode = 'install' | 'reinstall' | 'upgrade';

export class Laboratory {
  readonly host: Host;
  readonly proxy: Actor;

  static async open(host: Host): Promise<Laboratory> {
    return new Laboratory(host, await host.install('proxy', PROXY));
  }

  /** Returns the same laboratory in another process that has its state. */
  in(host: Host): Laboratory {
    return new Laboratory(host, this.proxy);
  }

  private constructor(host: Host, proxy: Actor) {
    this.host = host;
    this.proxy = proxy;
  }

  /** Makes a call by the proxy. */
  async forward(callee: Uint8Array, method: string, payload: Uint8Array = NOTHING, cycles = 0n): Promise<Answer> {
    const body = await this.#post(`/call/${this.proxy.name}/forward`, callee, method, payload, cycles);
    return { code: body.readUInt32LE(0), refunded: body.readBigUInt64LE(4), data: body.subarray(12) };
  }

  async #post(path: string, callee: Uint8Array, method: string, payload: Uint8Array, cycles: bigint): Promise<Buffer> {
    const amount = Buffer.alloc(8);
    amount.writeBigUInt64LE(cycles);
    const name = Buffer.from(method);
    const body = Buffer.concat([[callee.length], callee, [name.length], name, amount, payload].map(bytesOf));
    const response = await this.host.server.fetch(path, { method: 'POST', body });
    const answer = Buffer.from(await response.arrayBuffer());
    assert.equal(response.status, 200, `${method}: ${answer.toString()}`);
    return answer;
  }

  /** Returns the management canister's answer to the proxy, undecoded. */
  tryManage(method: string, argument: object): Promise<Answer> {
    const type = ARGUMENTS[method] ?? IDL.Record(ID);
    return this.forward(MANAGEMENT, method, new Uint8Array(IDL.encode([type], [argument])));
  }

  async manage(method: string, argument: object): Promise<unknown> {
    const answer = await this.tryManage(method, argument);
    assert.equal(answer.code, 0, `${method}: ${answer.data.toString()}`);
    return decoded(method, answer.data);
  }

  /** Does the same in a composite query. */
  async ask(method: string, argument: object): Promise<Answer> {
    const payload = new Uint8Array(IDL.encode([ARGUMENTS[method] ?? IDL.Record(ID)], [argument]));
    const body = await this.#post(`/query/${this.proxy.name}/ask`, MANAGEMENT, method, payload, 0n);
    return { code: body.readUInt32LE(0), refunded: body.readBigUInt64LE(4), data: body.subarray(12) };
  }

  /** Creates an empty canister, controlled by the proxy. */
  async create(): Promise<Subject> {
    const { canister_id: id } = (await this.manage('provisional_create_canister_with_cycles', {
      amount: [100_000_000_000_000n],
    })) as { canister_id: { toUint8Array(): Uint8Array } };
    const bytes = id.toUint8Array();
    return new Subject(this, await this.host.find(Buffer.from(bytes).toString('hex')));
  }

  /** Creates a canister with the script module in it. */
  async subject(init?: Uint8Array): Promise<Subject> {
    const subject = await this.create();
    await subject.change('install', init);
    return subject;
  }
}

const bytesOf = (part: Uint8Array | readonly number[]): Uint8Array => Uint8Array.from(part);

function decoded(method: string, data: Buffer): unknown {
  const type = RESULTS[method];
  return type === undefined ? undefined : IDL.decode([type], Uint8Array.from(data))[0];
}

/** Scripts by their slots. */
type Scripts = Readonly<Record<number, readonly Call[]>>;

/** A canister that runs scripts. */
export class Subject {
  readonly lab: Laboratory;
  readonly actor: Actor;

  constructor(lab: Laboratory, actor: Actor) {
    this.lab = lab;
    this.actor = actor;
  }

  get id(): Uint8Array {
    return this.actor.id;
  }

  get principal(): Principal {
    return Principal.fromText(this.actor.principal);
  }

  /** Installs or upgrades; the argument is for init or post_upgrade. */
  async tryChange(
    mode: Mode,
    arg: Uint8Array = NOTHING,
    module: Uint8Array = MODULE,
    upgrade: object = {},
  ): Promise<Answer> {
    return this.lab.tryManage('install_code', {
      canister_id: this.principal,
      mode: modeOf(mode, upgrade),
      wasm_module: module,
      arg,
    });
  }

  async change(mode: Mode, arg?: Uint8Array): Promise<void> {
    const answer = await this.tryChange(mode, arg);
    assert.equal(answer.code, 0, answer.data.toString());
  }

  manage(method: string, more: object = {}): Promise<unknown> {
    return this.lab.manage(method, { canister_id: this.principal, ...more });
  }

  async set(settings: Settings): Promise<void> {
    const opt = (n: number | undefined): bigint[] => (n === undefined ? [] : [BigInt(n)]);
    await this.manage('update_settings', {
      settings: {
        wasm_memory_limit: opt(settings.wasm_memory_limit),
        wasm_memory_threshold: opt(settings.wasm_memory_threshold),
        minimum_incoming_canister_call_cycles: opt(settings.minimum_incoming_canister_call_cycles),
      },
    });
  }

  async logs(): Promise<readonly string[]> {
    const { code, data } = await this.lab.ask('fetch_canister_logs', { canister_id: this.principal });
    assert.equal(code, 0, data.toString());
    const { canister_log_records: records } = decoded('fetch_canister_logs', data) as {
      canister_log_records: { content: Uint8Array }[];
    };
    return records.map(({ content }) => Buffer.from(content).toString());
  }

  /** Runs the calls as an update or a query, with scripts in slots for later. */
  async send(calls: readonly Call[], options: SendOptions = {}): Promise<{ status: number; body: Buffer }> {
    const { scripts = {}, blob, isQuery = false, caller } = options;
    const method = isQuery ? 'query' : 'call';
    const response = await this.lab.host.server.fetch(`/${method}/${this.actor.name}/${isQuery ? 'look' : 'run'}`, {
      method: 'POST',
      body: bytesOf(keeping(WIDTH, scripts, calls, blob)),
      headers: caller === undefined ? {} : { 'x-caller': caller },
    });
    return { status: response.status, body: Buffer.from(await response.arrayBuffer()) };
  }

  /** Returns the reply's bytes. */
  async run(calls: readonly Call[], options?: SendOptions): Promise<Buffer> {
    const { status, body } = await this.send(calls, options);
    assert.equal(status, 200, body.toString());
    return body;
  }

  async fails(calls: readonly Call[], options?: SendOptions): Promise<Failure> {
    const { status, body } = await this.send(calls, options);
    assert.notEqual(status, 200, `answered ${body.toString('hex')}`);
    const { code, message } = JSON.parse(body.toString()) as Failure;
    return { status, code, message };
  }

  /** Returns the results of the calls, in order. */
  async results(calls: readonly Call[], options: SendOptions = {}): Promise<readonly bigint[]> {
    const skipped = Object.keys(options.scripts ?? {}).length;
    const body = await this.run([...calls, ...replyWith(RESULTS_AT + 8 * skipped, 8 * calls.length)], options);
    return calls.map((_, index) => body.readBigUInt64LE(8 * index));
  }

  async result(call: Call, options?: SendOptions): Promise<bigint> {
    return (await this.results([call], options))[0] ?? -1n;
  }

  ask(call: Call): Promise<bigint> {
    return this.result(call, { isQuery: true });
  }
}

interface SendOptions {
  readonly scripts?: Scripts;
  readonly blob?: Uint8Array;
  readonly isQuery?: boolean;
  readonly caller?: string;
}

export function modeOf(mode: Mode, upgrade: object = {}): object {
  if (mode !== 'upgrade') return { [mode]: null };
  return { upgrade: [{ skip_pre_upgrade: [], wasm_memory_persistence: [], ...upgrade }] };
}

export const replyWith = (address: number, size: number): readonly Call[] => [
  ['msg_reply_data_append', address, size],
  ['msg_reply'],
];

/** Returns the argument of init or post_upgrade. */
export const script = (calls: readonly Call[], scripts: Scripts = {}, blob?: Uint8Array): Uint8Array =>
  Object.keys(scripts).length === 0 ? encodeScript(WIDTH, calls, blob) : keeping(WIDTH, scripts, calls, blob);

interface OutgoingParts {
  /** Calls that the callee, a subject, is to run; left out for others. */
  readonly payload?: readonly Call[];
  /** Scripts that come with the call. */
  readonly scripts?: Scripts;
  readonly cycles?: number;
  readonly timeoutSeconds?: number;
  /** Slots of the callbacks' scripts. */
  readonly reply?: number;
  readonly reject?: number;
  readonly cleanup?: number;
  /** Index of both callbacks, instead of the function that runs scripts. */
  readonly callback?: number;
}

/** Slot of the calls that a callee is to run. */
const PAYLOAD_SLOT = 9;

/** Returns a call to a method as calls, with the blob and the scripts that they need. */
export function outgoing(
  callee: Uint8Array,
  method: string,
  { payload, scripts = {}, cycles, timeoutSeconds, reply = 0, reject = 1, cleanup, callback }: OutgoingParts = {},
): { readonly calls: readonly Call[]; readonly blob: Uint8Array; readonly scripts: Scripts } {
  const name = Buffer.from(method);
  const fun = callback ?? callbackFunction(WIDTH);
  const nameAt = BLOB_AT + callee.length;
  const calls: readonly Call[] = [
    ['call_new', BLOB_AT, callee.length, nameAt, name.length, fun, slotAt(reply), fun, slotAt(reject)],
    ...(cleanup === undefined ? [] : [['call_on_cleanup', fun, slotAt(cleanup)] as const]),
    ...(timeoutSeconds === undefined ? [] : [['call_with_best_effort_response', timeoutSeconds] as const]),
    ...(cycles === undefined ? [] : [['call_cycles_add128', 0, cycles] as const]),
    payload === undefined
      ? ['call_data_append', nameAt + name.length, NOTHING.length]
      : ['call_data_append', slotAt(PAYLOAD_SLOT), encodeScript(WIDTH, payload).length],
    ['call_perform'],
  ];
  return {
    calls,
    blob: Buffer.concat([callee, name, NOTHING]),
    scripts: payload === undefined ? scripts : { ...scripts, [PAYLOAD_SLOT]: payload },
  };
}
