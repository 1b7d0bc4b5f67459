/** Listen addresses: parsing them, resolving them, and finding out whether other machines can reach them. */
import { lookup as systemLookup } from 'node:dns/promises';
import { BlockList, isIP } from 'node:net';
import { FlagProblem } from './flag.ts';

export interface ListenAddress {
  /** An IPv4 or IPv6 literal. */
  readonly host: string;
  readonly port: number;
  /** True if only this machine reaches the address: every address of the name is a loopback address. */
  readonly isLoopback: boolean;
}

interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}
/** Finds every address of a name; `dns.lookup`, unless a test replaces it. */
export type Lookup = (host: string) => Promise<readonly ResolvedAddress[]>;

const SHAPE = 'write it as host:port or [ipv6]:port, for example 127.0.0.1:7000 or [::1]:7000';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Splits an address into host and port. Throws a `FlagProblem` with the fix. */
export function splitAddress(text: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[(?<bracketed>[^\]]*)\]|(?<plain>[^:[\]]*)):(?<port>\d*)$/.exec(text);
  if (match === null) throw new FlagProblem(`'${text.slice(0, 300)}' is not an address: ${SHAPE}`);
  const { bracketed, plain = '', port = '' } = match.groups ?? {};
  if (bracketed !== undefined && isIP(bracketed) !== 6) {
    throw new FlagProblem(`'[${bracketed}]' is not an IPv6 address: ${SHAPE}`);
  }
  if (bracketed === undefined && plain === '') {
    throw new FlagProblem(`'${text}' names no host: ${SHAPE}; 0.0.0.0 listens on every interface`);
  }
  if (port === '' || port.length > 5 || Number(port) > 65_535) {
    throw new FlagProblem(`'${text}' has no usable port: give a number from 0 to 65535, 0 for a free one`);
  }
  return { host: bracketed ?? plain, port: Number(port) };
}

/** Splits and resolves an address. Rejects with a `FlagProblem`. */
export async function resolveAddress(text: string, lookup: Lookup = lookupAll): Promise<ListenAddress> {
  const { host, port } = splitAddress(text);
  const addresses = await lookup(host).catch((error: unknown) => {
    throw new FlagProblem(`'${host}' does not resolve to an address (${codeOf(error)}): ${SHAPE}`);
  });
  // A listener has one address. If a name has both kinds, IPv4 is the one that every client tries.
  const chosen = addresses.find(({ family }) => family === 4) ?? addresses[0];
  if (chosen === undefined) throw new FlagProblem(`'${host}' resolves to no address: ${SHAPE}`);
  const isLoopback = addresses.every(({ address, family }) => loopback.check(address, family === 6 ? 'ipv6' : 'ipv4'));
  return { host: chosen.address, port, isLoopback };
}

/** An async function, because Node throws synchronously for an impossible name, and rejects for an unknown one. */
const lookupAll: Lookup = async (host) => systemLookup(host, { all: true });

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}
