/** Main thread: handles by text, in an array of numbers. */
import { randomInt } from 'node:crypto';
import { assert, numberAt } from '../../kernel/index.ts';

/** Marks of free places; a taken one has a handle. */
const NEVER_USED = -1;
const GIVEN_UP = -2;
const PLACES_MIN = 64;
/** Another one in each process: nobody can choose names so that they all have the same place. */
const FNV_OFFSET = randomInt(2 ** 32);
const FNV_PRIME = 0x01000193;

/**
 * Finds handles by texts, of which each handle has one. There may be very many: what lies here of each is the handle
 * alone, 8 to 16 bytes, where a Map takes up to 56. The texts are with whoever has the handles.
 */
export class TextIndex {
  readonly #textOf: (handle: number) => string | undefined;
  #places = new Int32Array(PLACES_MIN).fill(NEVER_USED);
  /** Places that were ever used. */
  #used = 0;

  /** `textOf` knows the text of every handle that is here. */
  constructor(textOf: (handle: number) => string | undefined) {
    this.#textOf = textOf;
  }

  find(text: string): number | undefined {
    const place = this.#placeOf(text);
    return place === undefined ? undefined : this.#places[place];
  }

  /** Adds a handle under its text; an earlier one with the same text is not found any more. */
  add(handle: number): void {
    const text = this.#knownText(handle);
    const place = this.#placeOf(text);
    if (place !== undefined) {
      this.#places[place] = handle;
      return;
    }
    if ((this.#used + 1) * 2 > this.#places.length) this.#makeRoom();
    this.#put(text, handle);
  }

  delete(text: string): void {
    const place = this.#placeOf(text);
    if (place !== undefined) this.#places[place] = GIVEN_UP;
  }

  #knownText(handle: number): string {
    const text = this.#textOf(handle);
    assert(text !== undefined, `handle ${handle} has no text`);
    return text;
  }

  #put(text: string, handle: number): void {
    const last = this.#places.length - 1;
    let place = hashOf(text) & last;
    while (this.#places[place] !== NEVER_USED) place = (place + 1) & last;
    this.#places[place] = handle;
    this.#used++;
  }

  #placeOf(text: string): number | undefined {
    const places = this.#places;
    const last = places.length - 1;
    for (let place = hashOf(text) & last; ; place = (place + 1) & last) {
      const handle = numberAt(places, place, 'place');
      if (handle === NEVER_USED) return undefined;
      if (handle !== GIVEN_UP && this.#textOf(handle) === text) return place;
    }
  }

  /** At least half as many again as are taken now. */
  #makeRoom(): void {
    const taken = this.#places.filter((handle) => handle >= 0);
    let length = PLACES_MIN;
    while (length < (taken.length + 1) * 3) length *= 2;
    this.#places = new Int32Array(length).fill(NEVER_USED);
    this.#used = 0;
    for (const handle of taken) this.#put(this.#knownText(handle), handle);
  }
}

/** FNV-1a of the characters' codes. */
function hashOf(text: string): number {
  let hash = FNV_OFFSET;
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  return hash ^ (hash >>> 15);
}
