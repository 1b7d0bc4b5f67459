/**
 * The certificate of one canister's data, for queries that ask for it. It is of exactly the data that the canister has:
 * a query that finds none is undone, waits until the host has signed one, and begins again (ADR 111).
 * Executor thread; touched by the query that runs, and by the thread when a certificate has come.
 */
import { NO_BYTES } from '../../bytes/index.ts';

/** Age from which on a certificate is made anew. Clients refuse those that are older than 3 to 5 minutes. */
const CERTIFICATE_MS_MAX = 30_000;

/** The host's answer: a certificate, or the reason why there is none. */
export type CertificateAnswer = Uint8Array | string;

export class DataCertificate {
  /** True if a query has not found what it needs, and waits. */
  isWanted = false;
  #data: Uint8Array = NO_BYTES;
  #answer: CertificateAnswer | undefined;
  #askedMs = 0;

  /** Returns the answer for this data, if it counts for a query of this instant. A refusal counts for one instant. */
  answerFor(data: Uint8Array, nowMs: number): CertificateAnswer | undefined {
    const ageMs = nowMs - this.#askedMs;
    const isYoung = typeof this.#answer === 'string' ? ageMs === 0 : ageMs >= 0 && ageMs < CERTIFICATE_MS_MAX;
    return isYoung && Buffer.compare(data, this.#data) === 0 ? this.#answer : undefined;
  }

  /** Takes the answer to what was asked at that instant. */
  take(data: Uint8Array, askedMs: number, answer: CertificateAnswer): void {
    this.#data = data;
    this.#askedMs = askedMs;
    this.#answer = answer;
  }
}
