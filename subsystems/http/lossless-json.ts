/** Reads JSON bodies whose numbers stay as they were written: an argument may be larger than a double holds. */
import type { ServerError } from '../../kernel/index.ts';

/** Not in the types of TypeScript yet. */
const RawJson = JSON as typeof JSON & { rawJSON(source: string): unknown; isRawJSON(value: unknown): boolean };
const SHOWN_CHARACTERS_MAX = 80;

/** Makes the error for what is wrong with a body. */
type Refusal = (message: string) => ServerError;

/** Returns the value of a body; its numbers are for `JSON.stringify` alone. Throws what `refusal` returns. */
export function parsedBody(body: Uint8Array, refusal: Refusal): unknown {
  const reviver = (_key: string, value: unknown, { source }: { readonly source?: string }): unknown =>
    typeof value === 'number' && source !== undefined ? RawJson.rawJSON(source) : value;
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    return (JSON.parse as (text: string, reviver: unknown) => unknown)(text, reviver);
  } catch (error) {
    const isDeep = error instanceof RangeError;
    const why = (error as Error).message.slice(0, SHOWN_CHARACTERS_MAX);
    throw refusal(`the body: ${isDeep ? 'it nests too deeply' : `expected JSON (${why})`}`);
  }
}

/** Throws what `refusal` returns unless the value is an object. */
export function objectOf(value: unknown, place: string, refusal: Refusal): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || RawJson.isRawJSON(value))
    throw refusal(`${place}: expected an object`);
  return value as Readonly<Record<string, unknown>>;
}

/** Throws what `refusal` returns if there is a key beside the known ones. */
export function refuseOthers(others: object, place: string, known: string, refusal: Refusal): void {
  const [other] = Object.keys(others);
  if (other === undefined) return;
  const shown = JSON.stringify(other.slice(0, SHOWN_CHARACTERS_MAX));
  throw refusal(`${place}: unknown key ${shown}; the keys are ${known}`);
}
