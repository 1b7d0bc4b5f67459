/**
 * Queries of one thread that wait for the certificate of their canister's data. The canister's other messages wait with
 * them, so that its data stays what is being certified; other canisters go on.
 *
 * Executor thread; touches certificates of canisters whose gates are closed.
 */
import type { CanisterState } from '../engine/canister-state.ts';
import { type CertificateAnswer, DataCertificate } from '../engine/data-certificate.ts';
import type { MessageHooks } from './long-messages.ts';

interface Waiting {
  readonly take: (answer: CertificateAnswer) => void;
  readonly wake: () => void;
}

export class CertificateDesk {
  readonly #ask: (ticket: number, id: Uint8Array, data: Uint8Array) => void;
  readonly #waiting = new Map<number, Waiting>();
  #tickets = 0;

  /** `ask` asks the main thread for a certificate; with the answer `came` has to be called. */
  constructor(ask: (ticket: number, id: Uint8Array, data: Uint8Array) => void) {
    this.#ask = ask;
  }

  /** Suspends a query of that instant by `park` until the answer is there. Resolves to false if it was recalled. */
  async certify(canister: CanisterState, nowMs: number, park: MessageHooks['park']): Promise<boolean> {
    const { id, certifiedData: data } = canister;
    const certificate = (canister.certificate ??= new DataCertificate());
    certificate.isWanted = false;
    const ticket = ++this.#tickets;
    const isThere = await park((_handle, wake) => {
      this.#waiting.set(ticket, { take: (answer) => certificate.take(data, nowMs, answer), wake });
      this.#ask(ticket, id, data);
    });
    this.#waiting.delete(ticket);
    return isThere;
  }

  came(ticket: number, answer: CertificateAnswer): void {
    const waiting = this.#waiting.get(ticket);
    waiting?.take(answer);
    waiting?.wake();
  }
}
