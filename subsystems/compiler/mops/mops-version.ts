/**
 * The order of versions, as mops has it: semantic versions, read loosely (`v1.2`, `01.2.3`, `1.2.3rc1`). In a text
 * that is no version, the first number counts; a text without a number is `0.0.0`.
 */
interface Version {
  readonly numbers: readonly number[];
  /** Empty for a release. */
  readonly prerelease: readonly string[];
}

/** No version is longer; what follows says nothing. */
const CHARACTERS_MAX = 256;
const WORD = String.raw`\d*[A-Za-z-][A-Za-z\d-]*`;
const listOf = (item: string): string => String.raw`(?:${item})(?:\.(?:${item}))*`;
const BUILD = String.raw`(?:\+${listOf(String.raw`[\dA-Za-z-]+`)})?`;
const WHOLE = new RegExp(
  String.raw`^[v=\s]*(\d+)\.(\d+)\.(\d+)(?:-?(${listOf(String.raw`${WORD}|\d+`)}))?${BUILD}$`,
  'u',
);
const NUMBER = String.raw`(\d{1,16})`;
const ANYWHERE = new RegExp(
  String.raw`(?:^|\D)${NUMBER}(?:\.${NUMBER})?(?:\.${NUMBER})?` +
    String.raw`(?:-(${listOf(String.raw`${WORD}|0|[1-9]\d*`)}))?${BUILD}(?:$|\D)`,
  'u',
);
const NONE: Version = { numbers: [0, 0, 0], prerelease: [] };

/** Returns a negative number if `a` is lower, and 0 if neither is: what follows a `+` does not count. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [versionOf(a), versionOf(b)];
  for (const [k, number] of left.numbers.entries()) {
    const difference = number - (right.numbers[k] ?? 0);
    if (difference !== 0) return difference;
  }
  return comparePrereleases(left.prerelease, right.prerelease);
}

/** The version at the end of a name on GitHub (`release-v1.2.0-rc.1`); undefined: it has none. */
export function versionOfRef(ref: string): string | undefined {
  return /v(\d{1,2}\.\d{1,2}\.\d{1,2}(?:-.*)?)$/u.exec(ref)?.[1];
}

function versionOf(text: string): Version {
  const short = text.slice(0, CHARACTERS_MAX);
  return read(WHOLE.exec(short)) ?? read(ANYWHERE.exec(short)) ?? NONE;
}

function read(found: RegExpExecArray | null): Version | undefined {
  if (found === null) return undefined;
  const numbers = found.slice(1, 4).map((digits: string | undefined) => Number(digits ?? 0));
  const [, , , , prerelease] = found;
  return numbers.every(Number.isSafeInteger) ? { numbers, prerelease: prerelease?.split('.') ?? [] } : undefined;
}

/** A release is higher than what came before it; of two lists the longer one is, where the shorter is its beginning. */
function comparePrereleases(left: readonly string[], right: readonly string[]): number {
  if (left.length === 0 || right.length === 0) return Math.sign(right.length) - Math.sign(left.length);
  for (const [k, one] of left.entries()) {
    const other = right[k];
    if (other === undefined) return 1;
    const difference = compareIdentifiers(one, other);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** Numbers by their size, and before words. */
function compareIdentifiers(left: string, right: string): number {
  const [isNumber, isOtherNumber] = [/^\d+$/u.test(left), /^\d+$/u.test(right)];
  if (isNumber && isOtherNumber) return Number(left) - Number(right);
  if (isNumber !== isOtherNumber) return isNumber ? -1 : 1;
  return left === right ? 0 : left < right ? -1 : 1;
}
