import { readFileSync } from 'node:fs';
import type { RunningServer } from '../../support/server.ts';

/** Watches the machine's memory that a server has. */
export class MemoryWatch implements Disposable {
  readonly #server: RunningServer;
  readonly #timer: NodeJS.Timeout;
  /** Memory at the beginning of the watch; then its peak so far. */
  readonly firstBytes: number;
  peakBytes: number;

  constructor(server: RunningServer) {
    this.#server = server;
    this.firstBytes = this.peakBytes = this.#bytes();
    this.#timer = setInterval(() => (this.peakBytes = Math.max(this.peakBytes, this.#bytes())), 10);
  }

  #bytes(): number {
    try {
      const status = readFileSync(`/proc/${this.#server.process.pid}/status`, 'utf8');
      return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
    } catch {
      return 0;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
