/**
 * Takes back what a compilation has left in moc's program, so that the next one finds an instance that has compiled
 * nothing, and that V8 has compiled well. All of the program's state is in its ten thousand variables and what they
 * lead to: 82,000 objects, which are restored in some 25 ms. Where the program is not known (`adapted-program.ts`),
 * nothing is taken back, and its instances are used once.
 */

/** State of the program, as the program exports it. */
export interface ShownState {
  /** The values of its variables. */
  readonly values: readonly unknown[];
  /** The values of those that it gives other values. */
  get(): readonly unknown[];
  set(values: readonly unknown[]): void;
}

/** The program's state at the time when it was shown. */
export class MocState {
  readonly #shown: ShownState;
  readonly #rebound: readonly unknown[];
  readonly #copies = new Map<object, object>();

  constructor(shown: ShownState) {
    this.#shown = shown;
    this.#rebound = shown.get();
    let found: readonly unknown[] = [...shown.values, ...this.#rebound];
    while (found.length > 0) {
      const next: unknown[] = [];
      for (const value of found) {
        if (typeof value !== 'object' || value === null || this.#copies.has(value)) continue;
        this.#copies.set(value, copyOf(value));
        if (!ArrayBuffer.isView(value)) for (const inner of Object.values(value)) next.push(inner);
      }
      found = next;
    }
  }

  /** Makes it what it was. */
  restore(): void {
    this.#shown.set(this.#rebound);
    for (const [object, copy] of this.#copies) {
      if (ArrayBuffer.isView(object)) bytesOf(object).set(copy as Uint8Array);
      else if (Array.isArray(object)) restoreItems(object, copy as readonly unknown[]);
      else restoreFields(object, copy);
    }
  }
}

function copyOf(value: object): object {
  if (ArrayBuffer.isView(value)) return bytesOf(value).slice();
  return Array.isArray(value) ? value.slice() : { ...value };
}

/** Most are as they were: to write to them would cost more than to look. */
function restoreItems(items: unknown[], copy: readonly unknown[]): void {
  if (items.length !== copy.length) items.length = copy.length;
  for (let index = 0; index < copy.length; index++)
    if (!Object.is(items[index], copy[index])) items[index] = copy[index];
}

function restoreFields(object: object, copy: object): void {
  for (const key of Object.keys(object)) if (!Object.hasOwn(copy, key)) Reflect.deleteProperty(object, key);
  for (const [key, value] of Object.entries(copy))
    if (!Object.is(Reflect.get(object, key), value)) Reflect.set(object, key, value);
}

/** Returns the bytes of an array of any context. */
function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
