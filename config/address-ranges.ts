/** `--trust-proxy`: addresses and ranges, by commas. Names are not looked up: what they mean can change unseen. */
import { isIP } from 'node:net';
import { FlagProblem } from './flag.ts';

/** Addresses whose first `prefix` bits are those of `address`. */
export interface AddressRange {
  readonly address: string;
  readonly prefix: number;
}

const SHAPE = 'give addresses and ranges by commas, for example 127.0.0.1,10.0.0.0/8,2001:db8::/32';
const SHOWN_CHARACTERS_MAX = 80;

/** Parses a list of addresses and CIDR ranges. Throws a `FlagProblem` with the fix. */
export function parseAddressRanges(text: string): readonly AddressRange[] {
  return text.split(',').map((part) => parseRange(part.trim()));
}

/** Returns the text of a list that `parseAddressRanges` takes. Throws a `FlagProblem` with the fix. */
export function checkAddressRanges(text: string): string {
  parseAddressRanges(text);
  return text;
}

function parseRange(written: string): AddressRange {
  const shown = `'${written.slice(0, SHOWN_CHARACTERS_MAX)}'`;
  if (written === '') throw new FlagProblem(`an entry is empty: ${SHAPE}`);
  const slash = written.indexOf('/');
  const address = slash < 0 ? written : written.slice(0, slash);
  const family = isIP(address);
  if (family === 0 || address.includes('%')) throw new FlagProblem(`${shown} is not an IP address or range: ${SHAPE}`);
  const bits = family === 4 ? 32 : 128;
  if (slash < 0) return { address, prefix: bits };
  const digits = written.slice(slash + 1);
  const prefix = Number(digits);
  if (!/^\d{1,3}$/.test(digits) || prefix > bits)
    throw new FlagProblem(`${shown} has no usable prefix: give a number of bits from 0 to ${bits} behind the slash`);
  if (bitsOf(address, family) & ((1n << BigInt(bits - prefix)) - 1n)) {
    throw new FlagProblem(
      `${shown} names an address and a range: write ${address} for that one alone, or clear the bits behind the first ${prefix}`,
    );
  }
  return { address, prefix };
}

/** Returns the number that an address is. */
function bitsOf(address: string, family: number): bigint {
  if (family === 4) return address.split('.').reduce((bits, byte) => (bits << 8n) | BigInt(byte), 0n);
  const written = address.replace(/[\d.]+$/, (end) => (isIP(end) === 4 ? groupsOfIpv4(end) : end));
  const [front = '', back] = written.split('::');
  const before = front === '' ? [] : front.split(':');
  const after = back === undefined || back === '' ? [] : back.split(':');
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].reduce((bits, group) => (bits << 16n) | BigInt(`0x${group}`), 0n);
}

/** The last 32 bits of an IPv6 address may be written like an IPv4 address. */
function groupsOfIpv4(address: string): string {
  const bits = bitsOf(address, 4);
  return `${(bits >> 16n).toString(16)}:${(bits & 0xffffn).toString(16)}`;
}
