/** Reads the body of a replay: `{"args": "(42)" | [42], "caller": "<principal>"}`, or nothing. */
import { messageOf, ServerError } from '../../kernel/index.ts';
import { principalFromText } from '../ic/index.ts';
import type { WhatIf } from '../replay/index.ts';
import { objectOf, parsedBody, refuseOthers } from './lossless-json.ts';

const KEYS = 'args, caller';

/** Returns the changes that a body asks for; undefined: none. Throws ServerError `bad-what-if`. */
export function whatIfIn(body: Uint8Array): WhatIf | undefined {
  if (body.length === 0) return undefined;
  const { args, caller, ...others } = objectOf(parsedBody(body, bad), 'the body', bad);
  if ('module' in others)
    throw bad('the body: another module is tried by a rehearsal, POST /upgrade/<ACTOR>?dry=1&replay=K');
  refuseOthers(others, 'the body', KEYS, bad);
  if (args === undefined && caller === undefined) return undefined;
  return { args: argsIn(args), caller: callerIn(caller) };
}

function argsIn(args: unknown): WhatIf['args'] {
  if (args === undefined) return undefined;
  if (typeof args === 'string') return { form: 'candid', bytes: Buffer.from(args) };
  if (Array.isArray(args)) return { form: 'json', bytes: Buffer.from(JSON.stringify(args)) };
  throw bad('args: expected Candid text, "(42 : nat)", or a JSON array, [42]');
}

function callerIn(caller: unknown): Uint8Array | undefined {
  if (caller === undefined) return undefined;
  if (typeof caller !== 'string') throw bad('caller: expected the text of a principal');
  try {
    return principalFromText(caller);
  } catch (error) {
    throw bad(`caller: ${messageOf(error)}`);
  }
}

function bad(message: string): ServerError {
  return new ServerError('invalid', 'bad-what-if', message);
}
