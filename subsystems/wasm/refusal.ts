import { ServerError } from '../../kernel/index.ts';

/** `malformed`: no valid WebAssembly. `unsupported`: valid, but not what a canister may use. `limit`: too much of something. */
export type RefusalCode = 'wasm-malformed' | 'wasm-unsupported' | 'wasm-limit' | 'wasm-import' | 'wasm-export';

/** A module that will not load, with the place and the reason. */
export function refusal(code: RefusalCode, message: string): ServerError {
  return new ServerError('invalid', code, message);
}

/** How places in a module are written in messages: as `wasm-objdump` does. */
export function hex(offset: number): string {
  return `0x${offset.toString(16)}`;
}
