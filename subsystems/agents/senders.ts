/**
 * Who has sent a request: the anonymous sender, or one whose key, by a chain of delegations or by itself, has signed
 * it. Chains that were verified before are known; whether they are still valid is asked each time.
 */
import { createHash } from 'node:crypto';
import { type Clock, ServerError } from '../../kernel/index.ts';
import { principalOfKey, separated } from '../certification/index.ts';
import { ANONYMOUS, principalToText, sameBytes } from '../ic/index.ts';
import type { CanisterSignatures } from './canister-signatures.ts';
import { bad, type Delegation, type Envelope } from './envelope.ts';
import { PublicKeys } from './public-keys.ts';

const CHAINS_MAX = 10_000;
const REQUEST = separated('ic-request');
const DELEGATION = separated('ic-request-auth-delegation');
const NANOSECONDS_PER_MS = 1_000_000n;

export class Senders {
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #keys: PublicKeys;
  /** Hashes of chains whose signatures are right, the newest last. */
  readonly #chains = new Set<string>();

  constructor(clock: Pick<Clock, 'nowMs'>, canisters: Pick<CanisterSignatures, 'verifies'>) {
    this.#clock = clock;
    this.#keys = new PublicKeys(canisters);
  }

  /**
   * Resolves if the sender has sent this. `target`: the canister that delegations must allow. Rejects with ServerError
   * `agent-forbidden`, or `agent-bad-request` for an anonymous request with a signature.
   */
  async check(envelope: Envelope, target: Uint8Array): Promise<void> {
    const { sender, senderKey, signature, delegations, requestId } = envelope;
    if (sameBytes(sender, ANONYMOUS)) {
      if (senderKey === undefined && signature === undefined && delegations.length === 0) return;
      throw bad('content.sender', 'is anonymous, but the envelope has a key, a signature or delegations');
    }
    if (senderKey === undefined || signature === undefined)
      throw forbidden('the sender is not anonymous: sender_pubkey and sender_sig must be there');
    const problem = this.#keys.problem(senderKey);
    if (problem !== undefined) throw forbidden(`sender_pubkey ${problem}`);
    if (!sameBytes(principalOfKey(senderKey), sender))
      throw forbidden(`sender_pubkey is not the key of the sender ${principalToText(sender)}`);
    this.#checkTerms(envelope, senderKey, target);
    const signer = delegations.length === 0 ? senderKey : await this.#endOfChain(senderKey, delegations);
    if (!(await this.#keys.verifies(signer, Buffer.concat([REQUEST, requestId]), signature)))
      throw forbidden('sender_sig is not the signature of this request');
  }

  /** Checks what the delegations allow, without their signatures. */
  #checkTerms({ delegations, type }: Envelope, senderKey: Uint8Array, target: Uint8Array): void {
    const now = BigInt(Math.floor(this.#clock.nowMs())) * NANOSECONDS_PER_MS;
    const seen = [senderKey];
    for (const [index, { publicKey, expiration, targets, permissions }] of delegations.entries()) {
      const place = `sender_delegation[${index}]`;
      const problem = this.#keys.problem(publicKey);
      if (problem !== undefined) throw forbidden(`the key of ${place} ${problem}`);
      if (seen.some((key) => sameBytes(key, publicKey))) throw forbidden(`the key of ${place} is there twice`);
      seen.push(publicKey);
      if (expiration < now) throw forbidden(`${place} has expired`);
      if (targets !== undefined && !targets.some((allowed) => sameBytes(allowed, target)))
        throw forbidden(`${place} does not name ${principalToText(target)} among its targets`);
      if (permissions !== undefined && permissions !== 'all' && permissions !== 'queries')
        throw forbidden(`${place} has permissions that this host does not know`);
      if (permissions === 'queries' && type === 'call') throw forbidden(`${place} allows queries only`);
    }
  }

  /** Resolves with the last key of a chain whose signatures are all right. */
  async #endOfChain(senderKey: Uint8Array, delegations: readonly Delegation[]): Promise<Uint8Array> {
    const hasher = createHash('sha256').update(senderKey);
    for (const { hash, signature } of delegations) {
      // With its length before it, no signature can be read as another division of the same bytes.
      hasher.update(hash).update(`${signature.length}:`).update(signature);
    }
    const chain = hasher.digest('latin1');
    const last = delegations.at(-1)?.publicKey ?? senderKey;
    if (this.#chains.has(chain)) return last;
    let key = senderKey;
    for (const [index, { publicKey, hash, signature }] of delegations.entries()) {
      if (!(await this.#keys.verifies(key, Buffer.concat([DELEGATION, hash]), signature)))
        throw forbidden(`the signature of sender_delegation[${index}] is wrong`);
      key = publicKey;
    }
    if (this.#chains.size >= CHAINS_MAX) {
      const [oldest = ''] = this.#chains;
      this.#chains.delete(oldest);
    }
    this.#chains.add(chain);
    return last;
  }
}

function forbidden(text: string): ServerError {
  return new ServerError('forbidden', 'agent-forbidden', text);
}
