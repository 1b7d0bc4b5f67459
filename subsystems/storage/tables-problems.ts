/** Errors that all tables on a disk have in common. */
import { messageOf, ServerError } from '../../kernel/index.ts';

/** Returns the error for damage; `place` is a file, or a family with a key. */
export function damaged(place: string, error: unknown): ServerError {
  const message = `the stored state is damaged: ${place}: ${messageOf(error)}`;
  return new ServerError('unavailable', 'state-corrupt', message, { cause: error });
}

export function unwritable(directory: string, error: unknown): ServerError {
  const message = `the state in ${directory} cannot be written: ${messageOf(error)}`;
  return new ServerError('unavailable', 'state-unwritable', message, { cause: error });
}

export function inUse(directory: string, error: unknown): ServerError {
  const message = `the state in ${directory} is in use by another process: ${messageOf(error)}`;
  return new ServerError('unavailable', 'state-locked', message, { cause: error });
}

/** Returns a key as it stands in messages. */
export function hex(key: Uint8Array): string {
  return `0x${Buffer.from(key.buffer, key.byteOffset, key.length).toString('hex')}`;
}

/** Returns the first key after this one. */
export function successorOf(key: Uint8Array): Uint8Array {
  const successor = new Uint8Array(key.length + 1);
  successor.set(key);
  return successor;
}
