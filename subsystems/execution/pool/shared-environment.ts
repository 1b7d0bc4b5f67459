/**
 * Facts of the host that all canisters have alike: variables, and its root key for those that read it. The key is
 * asked for when the first module comes that does, so that a host without such modules makes none.
 *
 * Main thread; asks whoever has the key, and nobody else.
 */
import { messageOf } from '../../../kernel/index.ts';
import type { HostCertification } from '../index.ts';
import type { Executor } from './executor.ts';
import type { InstrumentedCode } from '../wire/instrumented-code.ts';
import { ROOT_KEY_NAME } from '../wire/root-key-name.ts';

/** Imports whose answers depend on the key. The sizes do not. */
const READING: ReadonlySet<string> = new Set(['root_key_copy', 'subnet_self_copy']);

const NOBODY_CERTIFIES = 'this host certifies nothing: start the server with --agents guarded (docs/agents.md)';

type Told = Pick<Executor, 'send'>;

export class SharedEnvironment {
  readonly #executors: () => readonly Told[];
  #texts: ReadonlyMap<string, string> = new Map();
  #host: HostCertification | undefined;
  #asking: Promise<void> | undefined;

  /** `executors` returns those that have started. */
  constructor(executors: () => readonly Told[]) {
    this.#executors = executors;
  }

  /** Adds variables, for canisters that are created, woken or given code from now on. */
  share(texts: Iterable<readonly [string, string]>): void {
    this.#texts = new Map([...this.#texts, ...texts]);
    for (const executor of this.#executors()) this.tell(executor);
  }

  /** Returns what is told. */
  readonly shown = (): ReadonlyMap<string, string> => this.#texts;

  tell(executor: Told): void {
    if (this.#texts.size > 0) executor.send({ kind: 'environment', variables: this.#texts });
  }

  /** Names who has the key, and certifies. */
  readonly certifiedBy = (host: HostCertification): void => {
    this.#host = host;
  };

  /** Resolves with a certificate of a canister's data, or with the reason why there is none. */
  readonly certify = async (id: Uint8Array, data: Uint8Array): Promise<Uint8Array | string> => {
    if (this.#host === undefined) return NOBODY_CERTIFIES;
    try {
      return await this.#host.certify(id, data);
    } catch (error) {
      return messageOf(error);
    }
  };

  /** Resolves when the code may run; undefined: it may. Rejects as the source does, and asks again the next time. */
  readonly readyFor = ({ module }: InstrumentedCode): Promise<void> | undefined => {
    const host = this.#host;
    if (host === undefined || !WebAssembly.Module.imports(module).some(({ name }) => READING.has(name)))
      return undefined;
    return (this.#asking ??= this.#ask(host));
  };

  async #ask(host: HostCertification): Promise<void> {
    try {
      this.share([[ROOT_KEY_NAME, Buffer.from(await host.rootKey()).toString('hex')]]);
    } catch (error) {
      this.#asking = undefined;
      throw error;
    }
  }
}
