import { ServerError } from '../../kernel/index.ts';
import type { AgentAnswer, AgentMode, AgentRequest, Agents } from './index.ts';
import type { AgentInterface, AgentInterfaceNeeds, AgentInterfaceOptions } from './agent-interface.ts';

const MIB = 1024 * 1024;
const OPEN_BYTES_MAX = 4 * MIB;
const GUARDED_BYTES_MAX = 64 * MIB;

/** The agent interface, which the first request loads and starts: keys, thread and certificates are made then. */
export class LazyAgents implements Agents {
  readonly mode: AgentMode;
  readonly bodyBytesMax: number;
  readonly #needs: AgentInterfaceNeeds;
  readonly #options: AgentInterfaceOptions;
  #starting: Promise<AgentInterface> | undefined;
  #started: AgentInterface | undefined;
  /** True when nobody may start it any more: its thread would outlive the host. */
  #isClosed = false;
  /** Requests that are being answered. */
  readonly #answering = new Set<Promise<unknown>>();

  constructor(needs: AgentInterfaceNeeds, options: AgentInterfaceOptions) {
    this.#needs = needs;
    this.#options = options;
    this.mode = options.isOpen ? 'open' : 'guarded';
    this.bodyBytesMax = options.isOpen ? OPEN_BYTES_MAX : GUARDED_BYTES_MAX;
  }

  async status(): Promise<Uint8Array> {
    return (await this.#start()).status();
  }

  /** Resolves with the host's root key, DER. */
  async rootKey(): Promise<Uint8Array> {
    return (await this.#start()).rootKey;
  }

  /** Resolves with a certificate that a canister has this data. Rejects with ServerError `unavailable`. */
  async certify(id: Uint8Array, data: Uint8Array): Promise<Uint8Array> {
    return await (this.#started ?? (await this.#start())).certifyData(id, data);
  }

  answer(request: AgentRequest): Promise<AgentAnswer> {
    const answering = this.#answer(request);
    this.#answering.add(answering);
    const ended = (): void => void this.#answering.delete(answering);
    answering.then(ended, ended);
    return answering;
  }

  async #answer(request: AgentRequest): Promise<AgentAnswer> {
    const started = this.#started ?? (await this.#start());
    return started.answer(request);
  }

  /** Resolves when all requests are answered and the thread has ended. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#answering);
    this.#isClosed = true;
    await (await this.#starting?.catch(() => undefined))?.close();
  }

  async #start(): Promise<AgentInterface> {
    if (this.#isClosed) throw new ServerError('unavailable', 'certificates-closed', 'the server stops');
    this.#starting ??= this.#load().catch((error: unknown) => {
      this.#starting = undefined;
      throw error;
    });
    return await this.#starting;
  }

  async #load(): Promise<AgentInterface> {
    const { AgentInterface } = await import('./agent-interface.ts');
    this.#started = await AgentInterface.start(this.#needs, this.#options);
    return this.#started;
  }
}
