/**
 * `--trust-proxy`: the address of a client behind reverse proxies. Each proxy adds the address that it was reached from
 * to the end of `X-Forwarded-For` or `Forwarded` (RFC 7239), behind whatever the client itself has sent. So the list is
 * read from its end, for as long as a trusted proxy has written it: the first address that is no trusted proxy's is the
 * client's, and nothing in front of that address is believed.
 *
 * Where a request has both headers and they name different clients, at most one was written by the proxy and the other
 * may be the client's own invention: then the proxy's address stands.
 */
import { BlockList, isIP } from 'node:net';

/** Addresses whose first `prefix` bits are those of `address`. */
export interface AddressRange {
  readonly address: string;
  readonly prefix: number;
}

/** The part of a request that says where it came from. */
export interface Arrival {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly socket: { readonly remoteAddress?: string | undefined };
  /** The client's address as another server of this service tells it, which has taken the request. */
  readonly handedOnFor?: string | undefined;
}

export class ClientAddresses {
  readonly #trusted = new BlockList();
  readonly #isAnyTrusted: boolean;

  constructor(trusted: readonly AddressRange[]) {
    this.#isAnyTrusted = trusted.length > 0;
    for (const { address, prefix } of trusted)
      this.#trusted.addSubnet(address, prefix, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }

  /** Returns the client's address; empty if the connection is gone. */
  of({ headers, socket, handedOnFor }: Arrival): string {
    if (handedOnFor !== undefined) return handedOnFor;
    const peer = plain(socket.remoteAddress ?? '');
    if (!this.#isAnyTrusted || !this.#isTrusted(peer)) return peer;
    const listed = textOf(headers['x-forwarded-for']);
    const forwarded = textOf(headers['forwarded']);
    const byList = listed === undefined ? undefined : this.#lastUntrusted(peer, addressesListed(listed));
    const byFields = forwarded === undefined ? undefined : this.#lastUntrusted(peer, addressesForwarded(forwarded));
    if (byList === undefined || byFields === undefined) return byList ?? byFields ?? peer;
    return byList === byFields ? byList : peer;
  }

  /** Walks from the end of the list; an entry that is no address ends the walk, as nobody knows who wrote the rest. */
  #lastUntrusted(peer: string, addresses: readonly (string | undefined)[]): string {
    let known = peer;
    for (const address of addresses.toReversed()) {
      if (address === undefined) break;
      known = address;
      if (!this.#isTrusted(address)) break;
    }
    return known;
  }

  #isTrusted(address: string): boolean {
    const family = isIP(address);
    return family !== 0 && this.#trusted.check(address, family === 6 ? 'ipv6' : 'ipv4');
  }
}

function textOf(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header.join(',') : header;
}

/** Returns the entries of `X-Forwarded-For`: addresses, undefined for what is none. */
function addressesListed(header: string): (string | undefined)[] {
  return header.split(',').map((entry) => addressOf(entry.trim()));
}

/** A quoted text, or anything up to the next delimiter. */
const FORWARDED_PIECE = /"(?:[^"\\]|\\.)*"|[,;]|[^",;]+|"/gs;

/** Returns the `for` of each element of `Forwarded`, undefined for an element that has none or hides the address. */
function addressesForwarded(header: string): (string | undefined)[] {
  const addresses: (string | undefined)[] = [];
  let address: string | undefined;
  let pair = '';
  const endPair = (): void => {
    const match = /^\s*for\s*=\s*(.*?)\s*$/is.exec(pair);
    if (match !== null) address = addressOf((match[1] ?? '').replaceAll(/^"|"$/g, ''));
    pair = '';
  };
  for (const [piece] of header.matchAll(FORWARDED_PIECE)) {
    if (piece !== ',' && piece !== ';') {
      pair += piece;
      continue;
    }
    endPair();
    if (piece === ';') continue;
    addresses.push(address);
    address = undefined;
  }
  endPair();
  addresses.push(address);
  return addresses;
}

/** Returns the address of `1.2.3.4`, `1.2.3.4:567`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:567`. */
function addressOf(entry: string): string | undefined {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(entry)?.[1];
  if (bracketed !== undefined) return isIP(bracketed) === 6 ? plain(bracketed) : undefined;
  const withPort = /^([\d.]+):\d{1,5}$/.exec(entry)?.[1];
  const address = withPort ?? entry;
  return isIP(address) === 0 ? undefined : plain(address);
}

/** Returns an address without its zone, and an IPv4 address in IPv6 clothes as what it is. */
function plain(address: string): string {
  const [bare = ''] = address.split('%');
  return bare.toLowerCase().replace(/^::ffff:(?=\d+\.)/, '');
}
