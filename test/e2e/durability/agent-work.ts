/**
 * Users at `/api` who make canisters, change them and call an actor, each request an envelope that is kept and may be
 * sent again: what was answered, and whether a repeat has the same answer.
 */
import assert from 'node:assert/strict';
import { createCodec } from '../../../subsystems/codec/codec.ts';
import { hashOfMap } from '../../../subsystems/certification/index.ts';
import { principalToText } from '../../../subsystems/ic/index.ts';
import { MANAGEMENT_DID } from '../../../subsystems/management/interface-did.ts';
import type { RunningServer } from '../../support/server.ts';
import { certified, type Content, contentOf, envelopeOf, newSigner, send } from '../../subsystems/agents/raw-agent.ts';

const { methods } = createCodec().parseInterface(MANAGEMENT_DID);
const EMPTY_MODULE = Buffer.from('0061736d01000000', 'hex').toString('base64');

/** A request with what is known of its answer. */
interface Request {
  readonly method: string;
  readonly path: string;
  readonly content: Content;
  readonly envelope: Content;
  /** In hex, verified. */
  reply: string | undefined;
}

/** Everything that the users have had answered, and the answers that were given again. */
export const tally = { answered: 0, repeated: 0, 'not answered before the kill': 0 };

export class AgentUser {
  readonly #signer = newSigner();
  readonly #requests: Request[] = [];
  readonly #counter: Uint8Array;
  readonly #deletes: boolean;
  readonly #threshold: number;
  #id: string | undefined;

  constructor(counter: Uint8Array, number: number) {
    this.#counter = counter;
    this.#deletes = number % 2 === 1;
    this.#threshold = 1_000_000 + number;
  }

  /** Replies of the counter, in hex. */
  get counted(): readonly string[] {
    return this.#requests.filter(({ method }) => method === 'inc').flatMap(({ reply }) => reply ?? []);
  }

  /** Canisters that are left when all has been done. */
  get left(): number {
    return this.#deletes ? 0 : 1;
  }

  /** Sends all requests of before again, the answered ones too, then those that are left. `answered` is told each. */
  async work(server: RunningServer, rootKey: Uint8Array, answered: () => void = () => undefined): Promise<void> {
    for (let at = 0; at < this.#steps.length; at++) {
      const request = (this.#requests[at] ??= this.#next(at));
      const before = request.reply;
      const reply = await replyOf(server, request, rootKey);
      if (before === undefined) tally.answered++;
      else tally.repeated++;
      assert.equal(reply, before ?? reply, `${request.method} is answered as before`);
      request.reply = reply;
      if (request.method === 'provisional_create_canister_with_cycles') this.#id = createdIn(reply);
      answered();
    }
  }

  /** Tells how many requests were sent and not answered. */
  get open(): number {
    return this.#requests.filter(({ reply }) => reply === undefined).length;
  }

  /** Checks that the state has what was answered, as a certified status tells. */
  async check(server: RunningServer, rootKey: Uint8Array): Promise<void> {
    if (this.#deletes) return;
    const ask = async (method: string): Promise<Record<string, unknown>> =>
      decoded(method, await replyOf(server, this.#manage(method, { canister_id: this.#id }), rootKey)) as never;
    const { settings, status, module_hash: hash } = await ask('canister_status');
    assert.equal((settings as { readonly freezing_threshold: number }).freezing_threshold, this.#threshold);
    assert.deepEqual(status, { running: null });
    assert.notEqual(hash, null);
    const snapshots = (await ask('list_canister_snapshots')) as unknown as readonly unknown[];
    assert.equal(snapshots.length, 1, 'one snapshot, however often it was asked for');
  }

  get #steps(): readonly string[] {
    const kept = ['inc', 'inc', 'take_canister_snapshot', 'inc', 'update_settings', 'inc'];
    const made = ['provisional_create_canister_with_cycles', 'install_code', 'update_settings', ...kept];
    return this.#deletes ? [...made, 'stop_canister', 'delete_canister'] : made;
  }

  #next(at: number): Request {
    const method = this.#steps[at] ?? '';
    if (method === 'inc')
      return this.#request(method, contentOf('call', this.#counter, method, this.#signer.principal));
    const about = { canister_id: this.#id };
    const isFirst = this.#steps.indexOf(method) === at;
    return this.#manage(
      method,
      {
        provisional_create_canister_with_cycles: {},
        install_code: { ...about, mode: { install: null }, wasm_module: EMPTY_MODULE, arg: '' },
        update_settings: { ...about, settings: { freezing_threshold: isFirst ? 5 : this.#threshold } },
      }[method] ?? about,
    );
  }

  #manage(method: string, argument: object): Request {
    const types = methods.get(method) ?? assert.fail(method);
    const text = Buffer.from(JSON.stringify([argument]));
    const content = contentOf('call', new Uint8Array(), method, this.#signer.principal);
    return this.#request(method, content.set('arg', Buffer.from(types.args.encode(text, { lossless: false }))));
  }

  #request(method: string, content: Content): Request {
    const at = method === 'inc' ? principalToText(this.#counter) : (this.#id ?? 'aaaaa-aa');
    const path = `/api/v3/canister/${at}/call`;
    return { method, path, content, envelope: envelopeOf(content, this.#signer), reply: undefined };
  }
}

/** Sends until there is an answer, verifies its certificate, and returns the reply in hex. */
async function replyOf(server: RunningServer, request: Request, rootKey: Uint8Array): Promise<string> {
  const { method, path, content, envelope } = request;
  for (;;) {
    const answer = await send(server, path, envelope);
    if (answer.status === 202) continue;
    assert.equal(answer.status, 200, `${method}: ${answer.text}`);
    assert.equal(answer.cbor?.get('status'), 'replied', `${method}: ${answer.text}`);
    const reply = certified(answer, rootKey)(['request_status', hashOfMap(content), 'reply']);
    assert.ok(Buffer.isBuffer(reply), `${method}: ${String(reply)}`);
    return reply.toString('hex');
  }
}

function decoded(method: string, hex: string): unknown {
  const types = methods.get(method) ?? assert.fail(method);
  const text = types.results.decode(Buffer.from(hex, 'hex'), { lossless: false });
  return (JSON.parse(Buffer.from(text).toString()) as readonly unknown[])[0];
}

function createdIn(reply: string): string {
  return (decoded('create_canister', reply) as { readonly canister_id: string }).canister_id;
}
