/**
 * Addresses that are not the public internet (`--outcalls-deny-private`): this machine, its networks, addresses at
 * which clouds serve secrets, and everything reserved. The check is made on the address of a connection, never on a
 * name or on a notation: `http://0x7f.1/` and `http://2130706433/` arrive here as 127.0.0.1.
 *
 * In IPv6 only global unicast (2000::/3) is public. An address with an embedded IPv4 address counts as that one if
 * packets reach it (mapped, NAT64), and as private if they should not (6to4, Teredo).
 */
import { BlockList, isIP } from 'node:net';

/**
 * IANA's special-purpose registries (RFC 6890 and later), and an address of the public range that only a cloud's guests
 * can reach.
 */
const IPV4: readonly (readonly [address: string, bits: number])[] = [
  ['0.0.0.0', 8], // this network: Linux takes 0.0.0.0 for itself
  ['10.0.0.0', 8],
  ['100.64.0.0', 10], // carriers' NAT; Alibaba's metadata
  ['127.0.0.0', 8],
  ['168.63.129.16', 32], // Azure's host
  ['169.254.0.0', 16], // link-local; metadata of AWS, Google, Azure
  ['172.16.0.0', 12],
  ['192.0.0.0', 24], // protocol assignments; Oracle's metadata
  ['192.0.2.0', 24], // documentation
  ['192.88.99.0', 24], // 6to4 relays
  ['192.168.0.0', 16],
  ['198.18.0.0', 15], // benchmarks
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, broadcast
];

/** Parts of 2000::/3 that are not public. */
const IPV6: readonly (readonly [address: string, bits: number])[] = [
  ['2001::', 23], // protocol assignments: Teredo, ORCHID, benchmarks
  ['2001:db8::', 32], // documentation
  ['2002::', 16], // 6to4
  ['3fff::', 20], // documentation
];

const PRIVATE_IPV4 = new BlockList();
for (const [address, bits] of IPV4) PRIVATE_IPV4.addSubnet(address, bits, 'ipv4');
const PRIVATE_IPV6 = new BlockList();
for (const [address, bits] of IPV6) PRIVATE_IPV6.addSubnet(address, bits, 'ipv6');
const GLOBAL_UNICAST = new BlockList();
GLOBAL_UNICAST.addSubnet('2000::', 3, 'ipv6');

/** Prefixes of embedded IPv4 addresses as the first six groups: ::ffff:0:0/96 (mapped) and 64:ff9b::/96 (NAT64). */
const EMBEDDING = ['0:0:0:0:0:ffff', '64:ff9b:0:0:0:0'];

/** Returns true if the address is not of the public internet, or is no address at all. */
export function isPrivateAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return PRIVATE_IPV4.check(address, 'ipv4');
  if (family !== 6) return true;
  const [plain = ''] = address.split('%');
  const embedded = embeddedIpv4(plain);
  if (embedded !== undefined) return PRIVATE_IPV4.check(embedded, 'ipv4');
  return !GLOBAL_UNICAST.check(plain, 'ipv6') || PRIVATE_IPV6.check(plain, 'ipv6');
}

/** Returns the IPv4 address that packets to this one reach; undefined if it is IPv6 itself. */
function embeddedIpv4(address: string): string | undefined {
  // The URL parser writes each address in one form, with its last two groups as hex.
  const canonical = new URL(`http://[${address}]/`).hostname.slice(1, -1);
  const [head = '', tail] = canonical.split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : 8 - front.length - back.length;
  const groups = [...front, ...Array.from({ length: zeros }, () => '0'), ...back];
  if (!EMBEDDING.includes(groups.slice(0, 6).join(':'))) return undefined;
  return groups
    .slice(6)
    .flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255])
    .join('.');
}
