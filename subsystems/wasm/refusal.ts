import { ServerError } from '../../kernel/index.ts';

/**
 * `malformed`: no valid WebAssembly. `unsupported`: valid, but not what a canister may use. `limit`: too much of
 * something.
 */
type RefusalCode = 'wasm-malformed' | 'wasm-unsupported' | 'wasm-limit' | 'wasm-import' | 'wasm-export';

/** A module that will not load, with the place and the reason. */
export function refusal(code: RefusalCode, message: string): ServerError {
  return new ServerError('invalid', code, message);
}

/** Returns an offset as messages write places in a module: as `wasm-objdump` does. */
export function hex(offset: number): string {
  return `0x${offset.toString(16)}`;
}

const SHOWN_LENGTH_MAX = 80;

/** A name out of a module for a message: in quotes, escaped, and cut when it is long. */
export function quoted(name: string): string {
  return shortened(
    JSON.stringify(name.length > SHOWN_LENGTH_MAX ? name.slice(0, SHOWN_LENGTH_MAX) : name),
    name.length,
  );
}

/** Returns a name as `quoted` does, but without quotes if it is short and plain. */
export function plain(name: string): string {
  return /^[\w.$-]{1,80}$/.test(name) ? name : quoted(name);
}

/** Text whose length the module decides, cut; `length` is what it had. */
export function shortened(text: string, length = text.length): string {
  if (length <= SHOWN_LENGTH_MAX && text.length <= 2 * SHOWN_LENGTH_MAX) return text;
  return `${text.slice(0, SHOWN_LENGTH_MAX)}… (${length} characters)`;
}
