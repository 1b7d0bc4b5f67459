/** Lines that canisters print, and who reads them as they come. */
export interface DebugLine {
  readonly seq: number;
  readonly timeMs: number;
  readonly text: string;
  /** Number of the message that has printed it; 0: it has none. */
  readonly message: number;
}

/** Somebody who follows what a canister prints. */
export interface OutputReader {
  /** Lines may be written now. */
  readonly hasRoom: boolean;
  /** These lines go to nobody else. */
  write(lines: readonly DebugLine[]): void;
  /** The canister is deleted: nothing more comes. */
  ended(): void;
}

export interface OutputFollowing {
  /** To be called when the reader has room again. */
  resume(): void;
  /** The reader is gone. What it was given last is kept for another one for 30 s. */
  end(): void;
}
