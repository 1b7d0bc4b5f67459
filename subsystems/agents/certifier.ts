import type { Clock, Random } from '../../kernel/index.ts';
import {
  BlsVerifier,
  CertificateRounds,
  CertificateSigner,
  type HostIdentity,
  keptSecret,
  QuerySignatures,
  type SecretService,
  type SecretStorage,
} from '../certification/index.ts';

const SECRET_BYTES = 32;

export interface CertifierNeeds {
  readonly storage: SecretStorage;
  readonly service: SecretService;
  readonly clock: Clock;
  readonly random: Random;
}

/** The host's keys with what is done with them. */
export interface Certifier {
  readonly signer: CertificateSigner;
  readonly rounds: CertificateRounds;
  readonly queries: QuerySignatures;
  /** Starts its thread with the first certificate that somebody shows. */
  readonly verifier: BlsVerifier;
  readonly identity: HostIdentity;
}

/** Reads the host's secret, or draws it, and starts the thread that signs. */
export async function startCertifier({ storage, service, clock, random }: CertifierNeeds): Promise<Certifier> {
  const signer = new CertificateSigner(await keptSecret(storage, random.bytes(SECRET_BYTES), service));
  try {
    const identity = await signer.identity();
    const rounds = new CertificateRounds(signer, clock);
    return { signer, rounds, queries: new QuerySignatures(signer), verifier: new BlsVerifier(), identity };
  } catch (error) {
    await signer.close();
    throw error;
  }
}
