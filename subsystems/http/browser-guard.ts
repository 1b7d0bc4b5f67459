/**
 * `--browser-guard`: keeps the pages of other sites away from what needs no token here only because nobody has set
 * one. CORS is open (docs/http.md), so a page that a developer happens to visit could call every route of a server on
 * the same machine, and read the answers. What browsers say of a request gives such a page away: its `Origin` or
 * `Sec-Fetch-Site`, and, where its own name was made to mean this machine (DNS rebinding), the `Host`. What is no
 * browser says none of it and passes.
 */
import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { hostNameOf } from './targets.ts';

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4');
LOOPBACK.addAddress('::1', 'ipv6');
/** Addresses that mean all of a machine's. */
const WILDCARDS: ReadonlySet<string> = new Set(['0.0.0.0', '::']);
/** Values of `Sec-Fetch-Site` for requests of the server's own pages, and for addresses that the user has typed. */
const OWN_SITES: ReadonlySet<string> = new Set(['same-origin', 'none']);
const SHOWN_CHARACTERS_MAX = 80;

export class BrowserGuard {
  /** Names that mean this server: the address that it listens on, and what the operator wrote for it. */
  readonly #names: ReadonlySet<string>;
  readonly #listensEverywhere: boolean;
  /** The host that was checked last; `#isHostOurs` has the result. */
  #host: string | undefined = undefined;
  #isHostOurs = true;

  /** `names`: of the listening address, without port and brackets. */
  constructor(names: readonly string[]) {
    this.#names = new Set(names.map((name) => name.toLowerCase()));
    this.#listensEverywhere = names.some((name) => WILDCARDS.has(name));
  }

  /** Returns why a request is refused, or undefined if it may pass. */
  refusal({ headers, socket }: IncomingMessage): string | undefined {
    const { host, origin, 'sec-fetch-site': site } = headers;
    if (host !== undefined && !this.#isOurs(host, socket.localAddress))
      return `the host ${shown(host)} is not this server's: use localhost, its address, or send the token`;
    // A page at another port of the same host says same-site, and of its pictures nothing else.
    if (site !== undefined && !OWN_SITES.has(site))
      return 'pages of other sites may not use this server (--browser-guard)';
    if (origin !== undefined && !isSameOrigin(origin, host))
      return `pages of the origin ${shown(origin)} may not use this server (--browser-guard)`;
    return undefined;
  }

  #isOurs(host: string, localAddress: string | undefined): boolean {
    if (host !== this.#host) {
      this.#isHostOurs = this.#looksOurs(hostNameOf(host), localAddress);
      // The result depends on the connection if the server listens everywhere, so it is not kept then.
      this.#host = this.#listensEverywhere ? undefined : host;
    }
    return this.#isHostOurs;
  }

  #looksOurs(name: string, localAddress: string | undefined): boolean {
    if (name === 'localhost' || name.endsWith('.localhost') || this.#names.has(name)) return true;
    const address = name.startsWith('[') ? name.slice(1, -1) : name;
    const family = isIP(address);
    if (family === 0) return false;
    if (this.#names.has(address) || LOOPBACK.check(address, family === 6 ? 'ipv6' : 'ipv4')) return true;
    // An address is no name that somebody could make mean another.
    return this.#listensEverywhere && localAddress?.replace(/^::ffff:/, '') === address;
  }
}

/** A page at `http://<host>` sends `Origin: http://<host>`; behind a proxy with TLS the scheme is another. */
function isSameOrigin(origin: string, host: string | undefined): boolean {
  const scheme = /^https?:\/\//i.exec(origin);
  if (scheme === null || host === undefined) return false;
  return origin.slice(scheme[0].length).toLowerCase() === host.toLowerCase();
}

function shown(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text);
}
