/**
 * Facts that stay with a canister: the table of them, and all that is done with each one alike.
 *
 *     GivenFacts       given by operators; stored with the canister's identity, if they are not the default
 *     MessageNumbers   changed by messages; told with each step, undone with a message, in logs and in stored numbers
 *
 * A new fact is a member here and its value in the table below it. Types that contain the facts are derived from these
 * two, so the compiler asks for whatever else there is to do; what is stored without the fact is read as the default.
 * Plain data on all threads.
 */

// ---- facts that operators give

/**
 * Facts that an operator gives a canister: they stay until another is given. No update may depend on one, because no
 * log has them. What updates depend on is a setting (`CanisterSettings`).
 */
export interface GivenFacts {
  /** True if the canister's queries find a certificate, a placeholder that certifies nothing. */
  readonly hasCertificate: boolean;
  /** True if the canister's queries find a certificate of its data that the host has signed. */
  readonly isCertified: boolean;
}

/** The defaults. A stored fact has the type of its default. */
export const NO_FACTS: GivenFacts = Object.freeze({ hasCertificate: false, isCertified: false });

const FACTS = Object.keys(NO_FACTS) as readonly (keyof GivenFacts)[];

/**
 * Returns the facts with those among the members of `given` in place of the old ones; the same object if that changes
 * nothing.
 */
export function withFacts(facts: GivenFacts, given: Partial<GivenFacts>): GivenFacts {
  const other = FACTS.filter((name) => given[name] !== undefined && given[name] !== facts[name]);
  if (other.length === 0) return facts;
  return { ...facts, ...Object.fromEntries(other.map((name) => [name, given[name]])) };
}

/** Returns the facts that are not the default, as they are stored. */
export function factsToStore(facts: GivenFacts): Partial<GivenFacts> {
  return Object.fromEntries(FACTS.filter((name) => facts[name] !== NO_FACTS[name]).map((name) => [name, facts[name]]));
}

/** Returns the facts among the members of what is stored; undefined: one of them is none of this type. */
export function factsAmong(stored: Partial<GivenFacts>): GivenFacts | undefined {
  const isValid = (name: keyof GivenFacts): boolean =>
    stored[name] === undefined || typeof stored[name] === typeof NO_FACTS[name];
  return FACTS.every(isValid) ? withFacts(NO_FACTS, stored) : undefined;
}

// ---- numbers that messages change

/** Numbers that a canister's messages change, finite and not negative. */
export interface MessageNumbers {
  /** Counts what changed the canister; see docs/execution-rules.md, "The version of a canister". */
  readonly version: number;
}

/** The numbers of a new canister. Their order is that of their places in rows, records and stored values: only add. */
export const NO_NUMBERS: MessageNumbers = Object.freeze({ version: 0 });

type MutableNumbers = { -readonly [Name in keyof MessageNumbers]: MessageNumbers[Name] };

const NUMBERS = Object.keys(NO_NUMBERS) as readonly (keyof MessageNumbers)[];
export const MESSAGE_NUMBERS = NUMBERS.length;

/** Returns a number's place among them, from 0 on. */
export function placeOf(name: keyof MessageNumbers): number {
  return NUMBERS.indexOf(name);
}

export function takeNumbers(to: MutableNumbers, from: MessageNumbers): void {
  for (const name of NUMBERS) to[name] = from[name];
}

/** Returns a copy of the numbers alone. */
export function numbersOf(from: MessageNumbers): MessageNumbers {
  const numbers = { ...NO_NUMBERS };
  takeNumbers(numbers, from);
  return numbers;
}

/** Writes the numbers to their places from `at` on. */
export function putNumbers(floats: Float64Array, at: number, from: MessageNumbers): void {
  for (let place = 0; place < NUMBERS.length; place++) {
    const name = NUMBERS[place];
    if (name !== undefined) floats[at + place] = from[name];
  }
}

/** Returns true if these are the numbers at their places from `at` on. */
export function areNumbersAt(floats: Float64Array, at: number, numbers: MessageNumbers): boolean {
  for (let place = 0; place < NUMBERS.length; place++) {
    const name = NUMBERS[place];
    if (name !== undefined && floats[at + place] !== numbers[name]) return false;
  }
  return true;
}

/** Reads the numbers at their places from `at` on. */
export function numbersAt(floats: ArrayLike<number>, at: number): MessageNumbers {
  const numbers: MutableNumbers = { ...NO_NUMBERS };
  for (const [place, name] of NUMBERS.entries()) numbers[name] = floats[at + place] ?? 0;
  return numbers;
}

export function areSameNumbers(a: MessageNumbers, b: MessageNumbers): boolean {
  return NUMBERS.every((name) => a[name] === b[name]);
}

/**
 * Returns true if running a log again has come to the numbers that the host knows. Only the version may be less:
 * changes of settings since then count, too.
 */
export function areNumbersReached(replayed: MessageNumbers, known: MessageNumbers): boolean {
  return replayed.version <= known.version && areSameNumbers({ ...numbersOf(replayed), version: known.version }, known);
}

// ---- numbers that came after the first stored form

/** Numbers with places in the first stored form: the version. Later ones follow at the end of what is stored. */
const FIRST_NUMBERS = 1;
const LATER = NUMBERS.slice(FIRST_NUMBERS);
/** The most numbers that `laterNumbers` returns. */
export const LATER_NUMBERS = LATER.length;
const NONE: readonly number[] = [];

/** Returns the later numbers in order; none if all are 0, so that what is stored stays as it was without them. */
export function laterNumbers(numbers: MessageNumbers): readonly number[] {
  return LATER.every((name) => numbers[name] === 0) ? NONE : LATER.map((name) => numbers[name]);
}

/** Returns the numbers of what is stored; later numbers that it lacks are 0. */
export function storedNumbers(version: number, later: readonly number[]): MessageNumbers {
  return numbersAt([version, ...later], 0);
}
