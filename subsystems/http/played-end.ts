import type { Codec } from '../codec/index.ts';
import type { PlayedEnd } from '../copies/index.ts';
import { candidPreview } from './candid-preview.ts';

/** Returns the end of a message on a copy, as reports of rehearsals and replays have it. */
export function endJson(
  { outcome, reply, message, stack, instructions }: PlayedEnd,
  codec: Pick<Codec, 'previewText'>,
): object {
  return {
    outcome,
    ...(reply !== undefined && { reply: candidPreview(codec, reply) }),
    ...(message !== undefined && { message }),
    ...(stack && { stack: stack.split('\n') }),
    instructions,
  };
}
