/**
 * Main thread: where the interfaces of canisters come from. In this order: what the module carries, if it is
 * understood; what the manifest or a client gave; what the module answers when it is asked, as old Rust modules do.
 * Whatever the source, the text is somebody else's: it is parsed within bounds, long text in another thread, and a
 * module without one still serves raw calls.
 */
import { type Clock, type Logger, messageOf, ServerError } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { Outcome } from '../ic/index.ts';
import type { HostedCode } from '../management/index.ts';
import type { Scheduler } from '../scheduler/index.ts';
import type { CanisterRecord, RecordedCode } from './canister-record.ts';
import { quotedName } from './index.ts';

/** `()` */
export const EMPTY_ARGUMENTS = Uint8Array.of(0x44, 0x49, 0x44, 0x4c, 0, 0);
const ANONYMOUS = Uint8Array.of(4);
/** A query without arguments that answers with .did text, in modules of the Rust CDK before there were metadata. */
const ASKED_METHOD = '__get_candid_interface_tmp_hack';
/** Ms for which an answer is waited for; copying a constant takes some microseconds. */
const ASK_DEADLINE_MS = 2000;
/** The longest text that is parsed, and what surrounds it. */
const ASKED_BYTES_MAX = 1024 * 1024 + 64;
/**
 * Parts of an interface that comes while the host serves; with these, the main thread still enters all methods at once.
 */
const PARTS_MAX = 10_000;
/** Methods that a message names. */
const NAMED_METHODS_MAX = 5;

interface CandidInterfacesNeeds {
  readonly codec: Pick<Codec, 'parseInterfaceAnySize'>;
  readonly scheduler: Pick<Scheduler, 'deliver'>;
  readonly clock: Pick<Clock, 'after'>;
  readonly log: Logger;
}

/** A canister that can be asked. */
type AskedCanister = Pick<CanisterRecord, 'name' | 'handle'>;
/** A canister that can be given an interface. */
type InterfacedCanister = AskedCanister & Pick<CanisterRecord, 'code' | 'givenCandid' | 'takeInterface'>;

export class CandidInterfaces {
  readonly #needs: CandidInterfacesNeeds;
  /** With what the module carries, or has answered. */
  readonly #own = new WeakMap<ModuleInfo, Promise<OwnCode>>();
  /** With the text that was given last for the module. */
  readonly #given = new WeakMap<ModuleInfo, RecordedCode>();
  /** Modules that have been asked, or are being asked now. */
  readonly #asked = new WeakMap<ModuleInfo, Promise<void>>();

  constructor(needs: CandidInterfacesNeeds) {
    this.#needs = needs;
  }

  /**
   * The same object for a thousand actors of one module, and so its bytes once. Rejects with ServerError when the given
   * text is needed and does not parse.
   */
  async recorded(name: string, code: HostedCode, given: string | undefined): Promise<RecordedCode> {
    const own = await this.#ownOf(name, code);
    return given === undefined || carriesInterface(own) ? own : await this.#withGiven(own, given);
  }

  /**
   * The code with a text that has just come for it. Rejects with ServerError `invalid` if that cannot be its interface.
   */
  async checked(name: string, code: HostedCode, did: string): Promise<RecordedCode> {
    const own = await this.#ownOf(name, code);
    const given = { ...own, candid: await this.#parse(did) };
    refuseMissing(name, given);
    this.#given.set(own.module, given);
    return carriesInterface(own) ? own : given;
  }

  /**
   * Takes a text for a canister that needs one; nothing else may change its code meanwhile. Rejects with ServerError
   * `invalid`.
   */
  async give(record: InterfacedCanister, did: string): Promise<void> {
    const { code, name } = record;
    if (code === undefined) {
      throw new ServerError('invalid', 'actor-empty', `actor ${name} is empty: install a module before its interface`);
    }
    const own = await this.#ownOf(name, code);
    if (carriesInterface(own)) {
      throw new ServerError(
        'invalid',
        'interface-own',
        `the module of ${name} carries an interface of its own, which is used: GET /candid/${name}`,
      );
    }
    const given = await this.checked(name, code, did);
    record.givenCandid = did;
    record.takeInterface(given);
  }

  /**
   * Asks the module of a canister without interface, if it can be asked and has not been. Resolves in any case, after
   * some seconds at most.
   */
  ask(record: InterfacedCanister): Promise<void> {
    const { code } = record;
    if (code === undefined || code.candid !== undefined || !code.module.methods.has(ASKED_METHOD)) return DONE;
    const known = this.#asked.get(code.module);
    if (known !== undefined) return known;
    const asking = this.#ask(record, code);
    this.#asked.set(code.module, asking);
    return asking;
  }

  async #ask(record: AskedCanister, code: RecordedCode): Promise<void> {
    const { name } = record;
    const outcome = await this.#answerOf(record);
    // Stopped, dry, or not there: another time, or another canister of this module.
    if (outcome === 'unknown') this.#asked.delete(code.module);
    if (typeof outcome === 'string' || outcome.kind !== 'reply') return;
    try {
      const candid = await this.#parse(await this.#textOf(outcome.data));
      (await this.#ownOf(name, code)).candid = candid;
    } catch (error) {
      if (!(error instanceof ServerError)) throw error;
      this.#needs.log.warn(`${name}: what ${ASKED_METHOD} answers is no Candid interface: ${error.message}`);
    }
  }

  async #answerOf({ handle, name }: AskedCanister): Promise<Outcome | 'late' | 'unknown'> {
    const { scheduler, clock, log } = this.#needs;
    const { promise: late, resolve } = Promise.withResolvers<'late'>();
    using _deadline = clock.after(ASK_DEADLINE_MS, () => resolve('late'));
    const query = {
      kind: 'query',
      method: ASKED_METHOD,
      caller: ANONYMOUS,
      argument: EMPTY_ARGUMENTS,
    } as const;
    try {
      const outcome = await Promise.race([scheduler.deliver(handle, query), late]);
      if (outcome === 'late')
        log.warn(`${name}: ${ASKED_METHOD} did not answer within ${ASK_DEADLINE_MS} ms and is not asked again`);
      else if (outcome.kind === 'unavailable' || outcome.kind === 'outOfCycles' || outcome.kind === 'reject')
        return 'unknown';
      return outcome;
    } catch (error) {
      log.warn(`${name}: ${ASKED_METHOD} could not be asked: ${messageOf(error)}`);
      return 'unknown';
    }
  }

  async #textOf(reply: Uint8Array): Promise<string> {
    if (reply.length > ASKED_BYTES_MAX)
      throw new ServerError(
        'invalid',
        'bad-interface',
        `it has ${reply.length} bytes; at most ${ASKED_BYTES_MAX} are taken`,
      );
    const asked = await this.#needs.codec.parseInterfaceAnySize('service : { ask : () -> (text) query }');
    const json = await asked.methods.get('ask')?.results.decodeAnySize(reply, { lossless: false });
    const [text] = JSON.parse(Buffer.from(json ?? []).toString('utf8')) as [string];
    return text;
  }

  async #parse(did: string): Promise<CandidInterface> {
    return await this.#needs.codec.parseInterfaceAnySize(did, undefined, { partsMax: PARTS_MAX });
  }

  #ownOf(name: string, code: HostedCode): Promise<OwnCode> {
    const { module } = code;
    const known = this.#own.get(module);
    if (known !== undefined) return known;
    const making = this.#makeOwn(name, code);
    this.#own.set(module, making);
    // Nobody was there to parse it: another time.
    making.catch(() => this.#own.delete(module));
    return making;
  }

  async #makeOwn(name: string, { module, wasm }: HostedCode): Promise<OwnCode> {
    return { module, wasm, ...(await this.#carriedBy(name, module)) };
  }

  async #carriedBy(name: string, module: ModuleInfo): Promise<Pick<RecordedCode, 'candid' | 'candidProblem'>> {
    if (module.candid === undefined) return { candid: undefined, candidProblem: undefined };
    const { codec, log } = this.#needs;
    try {
      const candid = await codec.parseInterfaceAnySize(module.candid, module.candidArgs);
      return { candid, candidProblem: undefined };
    } catch (error) {
      if (!(error instanceof ServerError) || error.kind !== 'invalid') throw error;
      log.warn(
        `${name}: the module's Candid interface does not parse, only raw calls work unless one is given: ${error.message}`,
      );
      return { candid: undefined, candidProblem: error.message };
    }
  }

  /** A given text is the operator's, so a mistake in it is refused with its place. */
  async #withGiven(own: RecordedCode, did: string): Promise<RecordedCode> {
    const known = this.#given.get(own.module);
    if (known?.candid?.text === did) return known;
    const code = { ...own, candid: await this.#needs.codec.parseInterfaceAnySize(did) };
    this.#given.set(own.module, code);
    return code;
  }
}

/** Code of one module, whose interface may become known later, for all canisters that have it. */
type OwnCode = { -readonly [K in keyof RecordedCode]: RecordedCode[K] };

const DONE: Promise<void> = Promise.resolve();

function carriesInterface({ module, candidProblem }: RecordedCode): boolean {
  return module.candid !== undefined && candidProblem === undefined;
}

function refuseMissing(name: string, { candid, module }: RecordedCode): void {
  const missing = [...(candid?.methods.keys() ?? [])].filter((method) => !module.methods.has(method));
  if (missing.length === 0) return;
  const named = missing.slice(0, NAMED_METHODS_MAX).map(quotedName).join(', ');
  const more = missing.length > NAMED_METHODS_MAX ? ` and ${missing.length - NAMED_METHODS_MAX} more` : '';
  throw new ServerError(
    'invalid',
    'interface-unfit',
    `the interface names methods that the module of ${name} does not export: ${named}${more}`,
  );
}
