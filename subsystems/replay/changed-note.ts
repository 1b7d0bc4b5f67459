/** A recorded message with another argument or caller, as "what if" asks for it. */
import { ServerError } from '../../kernel/index.ts';
import type { CandidInterface, Codec } from '../codec/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { Note, PastMessage } from '../timeline/index.ts';
import type { WhatIf } from './index.ts';

type Codecs = Pick<Codec, 'untyped' | 'parseInterfaceAnySize'>;

/**
 * Resolves with the note of the changed message. `code`: that which gets the argument, with the interface of then.
 * Rejects with ServerError `bad-what-if`, `no-interface`, and what the codec refuses an argument with.
 */
export async function changedNote(
  codec: Codecs,
  { entry: { note }, after }: PastMessage,
  code: ModuleInfo,
  { args, caller = note.caller }: WhatIf,
): Promise<Note> {
  const { kind, call } = note;
  if (kind === 'timer' || kind === 'heartbeat' || kind === 'low-memory')
    throw bad(`a message of the kind ${kind} has no argument and no caller`);
  if (args === undefined) return { ...note, caller };
  if (kind === 'callback' && call?.answered?.rejectCode !== 0)
    throw bad('the call was rejected, so its callback was given no argument');
  const types = kind === 'callback' ? undefined : typesIn(await interfaceOf(codec, code, after.settings), note);
  if (args.form === 'candid') {
    // Without types, the text says what its values are.
    return { ...note, caller, argument: await (types ?? codec.untyped).encodeTextAnySize(args.bytes) };
  }
  if (types === undefined) {
    const text = 'there is no interface that says what the values of a JSON array are: write Candid text, "(1 : nat)"';
    throw new ServerError('invalid', 'no-interface', text);
  }
  return { ...note, caller, argument: await types.encodeAnySize(args.bytes, { lossless: false }) };
}

function typesIn(candid: CandidInterface | undefined, { kind, method }: Note): CandidInterface['initArgs'] {
  return kind === 'update' ? candid?.methods.get(method)?.args : candid?.initArgs;
}

async function interfaceOf(
  codec: Codecs,
  { candid, candidArgs }: ModuleInfo,
  { givenCandid }: PastMessage['after']['settings'],
): Promise<CandidInterface | undefined> {
  if (candid !== undefined) return await codec.parseInterfaceAnySize(candid, candidArgs);
  return givenCandid === undefined ? undefined : await codec.parseInterfaceAnySize(givenCandid);
}

function bad(why: string): ServerError {
  return new ServerError('invalid', 'bad-what-if', `the body: ${why}`);
}
