import type { OutputLine } from '../ic/index.ts';
import { CanisterLog } from './canister-log.ts';
import { DebugBuffer } from './debug-buffer.ts';

/** What one canister has printed. Made when it first prints: most never do. */
export class CanisterOutput {
  readonly buffer = new DebugBuffer();
  readonly log = new CanisterLog();
  /** Lines of a step that has not ended, or is not durable. */
  unprinted: { readonly timeMs: number; readonly line: OutputLine }[] = [];

  print(timeMs: number, { text, record }: OutputLine): void {
    this.buffer.append(timeMs, text);
    if (record !== undefined) this.log.append(timeMs, record);
  }
}
