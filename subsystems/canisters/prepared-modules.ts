/**
 * Modules that another host's canisters have, prepared while this one waits to take them over: checked, instrumented
 * and compiled, which takes most of a start. What the other host installs comes, what it lets go goes. None of it is
 * canisters' state: whatever is not here, or not right, the start prepares as ever.
 *
 * Main thread; asks execution, and touches no canister.
 */
import { messageOf, type Logger } from '../../kernel/index.ts';
import type { ModuleStore } from '../execution/index.ts';
import { hexOf } from '../ic/index.ts';
import type { HostedCode } from '../management/index.ts';
import type { AheadReader } from '../storage/index.ts';

/**
 * Bytes of modules as they were uploaded: two hundred programs in Motoko. With their code, modules take some four times
 * as much.
 */
const PREPARED_BYTES_MAX: number = 64 * 2 ** 20;

interface Prepared extends Disposable {
  readonly bytes: number;
  readonly code: HostedCode;
}

export class PreparedModules implements AheadReader {
  readonly #execution: ModuleStore;
  readonly #log: Pick<Logger, 'info'>;
  readonly #bytesMax: number;
  /** Modules by hash; undefined: the module is being prepared, was refused, or there is no room for it. */
  readonly #prepared = new Map<string, Prepared | undefined>();
  #bytes = 0;
  #told = 0;
  #preparing: Promise<void> = Promise.resolve();

  constructor(execution: ModuleStore, log: Pick<Logger, 'info'>, bytesMax = PREPARED_BYTES_MAX) {
    this.#execution = execution;
    this.#log = log;
    this.#bytesMax = bytesMax;
  }

  wanted(keys: readonly Uint8Array[]): readonly Uint8Array[] {
    const there = new Set(keys.map(hexOf));
    const gone = [...this.#prepared.keys()].filter((hash) => !there.has(hash));
    for (const hash of gone) this.#forget(hash);
    // There may be room now for what was passed over.
    if (gone.length > 0)
      for (const [hash, prepared] of this.#prepared) if (prepared === undefined) this.#prepared.delete(hash);
    const wanted = keys.filter((key) => !this.#prepared.has(hexOf(key)));
    if (wanted.length === 0) this.#tell();
    else this.#execution.expect(keys.length);
    return wanted;
  }

  #tell(): void {
    if (this.count === this.#told) return;
    this.#told = this.count;
    this.#log.info(`standby: ${this.count} module(s) are ready`);
  }

  take(key: Uint8Array, wasm: Uint8Array): Promise<void> {
    const hash = hexOf(key);
    this.#prepared.set(hash, undefined);
    if (this.#bytes + wasm.length > this.#bytesMax) return Promise.resolve();
    this.#preparing = this.#prepare(hash, wasm);
    return this.#preparing;
  }

  async #prepare(hash: string, wasm: Uint8Array): Promise<void> {
    const execution = this.#execution;
    try {
      const module = await execution.prepare(wasm);
      // Damaged: the start says so.
      if (module.hash !== hash || !this.#prepared.has(hash)) return;
      const kept = execution.keep(module);
      const forget = (): void => kept[Symbol.dispose]();
      this.#prepared.set(hash, { bytes: wasm.length, code: { module, wasm }, [Symbol.dispose]: forget });
      this.#bytes += wasm.length;
    } catch (error) {
      this.#log.info(`a module of the other host cannot be prepared: ${messageOf(error)}`);
    }
  }

  /** The number of modules that are ready. */
  get count(): number {
    return [...this.#prepared.values()].filter((prepared) => prepared !== undefined).length;
  }

  /** The module of that hash, if it is ready. The one that is being prepared is waited for. */
  async of(hash: string): Promise<HostedCode | undefined> {
    await this.#preparing;
    return this.#prepared.get(hash)?.code;
  }

  /** Canisters have what they need of them. */
  clear(): void {
    if (this.count > 0) this.#log.info(`${this.count} module(s) of the other host were ready before its state was`);
    for (const hash of this.#prepared.keys()) this.#forget(hash);
  }

  #forget(hash: string): void {
    const prepared = this.#prepared.get(hash);
    this.#prepared.delete(hash);
    if (prepared === undefined) return;
    this.#bytes -= prepared.bytes;
    prepared[Symbol.dispose]();
  }
}
