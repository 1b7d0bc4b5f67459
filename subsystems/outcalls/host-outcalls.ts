import type { Logger } from '../../kernel/index.ts';
import type { OutcallRequest, OutcallResponse, Outcalls } from './index.ts';
import { RecordingOutcalls } from './recording-outcalls.ts';
import { ReplayedOutcalls } from './replayed-outcalls.ts';
import { UndiciOutcalls } from './undici-outcalls.ts';

export interface HostOutcallsOptions {
  /** True if addresses that are not of the public internet are refused. */
  readonly denyPrivate: boolean;
  /** Absolute path of a file that outcalls are recorded to; undefined: no recording. */
  readonly recordFile: string | undefined;
  /** Absolute path of a recording that answers; undefined: the network answers. */
  readonly replayFile: string | undefined;
}

/** This server's own outcalls, composed as its flags say. */
export class HostOutcalls implements Outcalls {
  readonly #network: UndiciOutcalls;
  readonly #recording: RecordingOutcalls | undefined;
  readonly #replayed: ReplayedOutcalls | undefined;
  readonly #way: Outcalls;

  readonly #log: Pick<Logger, 'warn'> | undefined;

  constructor({ denyPrivate, recordFile, replayFile }: HostOutcallsOptions, log?: Pick<Logger, 'warn'>) {
    this.#log = log;
    this.#network = new UndiciOutcalls({ denyPrivate });
    this.#recording = recordFile === undefined ? undefined : new RecordingOutcalls(this.#network, recordFile);
    this.#replayed = replayFile === undefined ? undefined : new ReplayedOutcalls(replayFile);
    this.#way = this.#replayed ?? this.#recording ?? this.#network;
  }

  /** Opens the recordings. Rejects with ServerError `outcalls-file-bad`. */
  async open(): Promise<void> {
    await this.#recording?.open();
    const warning = await this.#replayed?.open();
    if (warning !== undefined) this.#log?.warn(warning);
  }

  send(request: OutcallRequest, options: { readonly signal: AbortSignal }): Promise<OutcallResponse> {
    return this.#way.send(request, options);
  }

  async close(): Promise<void> {
    this.#network.close();
    await this.#recording?.close();
  }
}
