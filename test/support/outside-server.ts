/** The external server with which outcalls are tested, and certificates for it. */
import { readFileSync } from 'node:fs';
import { type OutsideServer, startOutsideServer as start } from '../../plugins/api/contracts/support/outside-server.ts';
import type { TestOwner } from './server.ts';

export type { OutsideServer } from '../../plugins/api/contracts/support/outside-server.ts';

const TLS = new URL('../fixtures/tls/', import.meta.url);
const pem = (name: string): string => readFileSync(new URL(name, TLS), 'utf8');
/** Certificate of the authority that has signed the good certificate. */
export const OUTSIDE_CA = pem('ca.pem');
export const OUTSIDE_CA_FILE = new URL('ca.pem', TLS).pathname;

export type Certificate = 'good' | 'expired' | 'wrong-name' | 'self-signed';

export function startOutsideServer(
  t: TestOwner,
  { certificate, port = 0 }: { readonly certificate?: Certificate; readonly port?: number } = {},
): Promise<OutsideServer> {
  if (certificate === undefined) return start(t, { port });
  return start(t, { port, certificate: { key: pem(`${certificate}.key`), cert: pem(`${certificate}.pem`) } });
}
