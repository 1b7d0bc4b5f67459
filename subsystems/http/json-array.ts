import type { ServerResponse } from 'node:http';
import { TimeSlices } from '../../kernel/index.ts';
import { JSON_TYPE, type Responder } from './responder.ts';

/** Items that are made before anybody looks at the time: some 20 µs each, and a short array is never cut. */
const ITEMS_A_LOOK = 16;
/** Characters of a long array that leave at once. */
const PIECE_CHARACTERS_MAX = 64 * 1024;

/**
 * Answers with a JSON array that may be long: of each item the text that `textOf` gives, undefined to leave it out. An
 * array that is made in one slice leaves at once; a longer one is sent piece by piece, as fast as the client takes it,
 * and between the pieces everything else has its turn. Each item is looked at when its turn comes.
 */
export async function answerJsonArray<T>(
  responder: Pick<Responder, 'bytes' | 'stream'>,
  response: ServerResponse,
  items: Iterable<T>,
  textOf: (item: T) => string | undefined,
): Promise<void> {
  const pieces = new JsonArrayPieces(items, textOf);
  const slices = new TimeSlices();
  const first = Buffer.from(pieces.next(slices), 'utf8');
  if (pieces.isDone) responder.bytes(response, 200, JSON_TYPE, first);
  else await responder.stream(response, JSON_TYPE, rest(first, pieces, slices), { isSoonOver: true });
}

async function* rest<T>(first: Uint8Array, pieces: JsonArrayPieces<T>, slices: TimeSlices): AsyncIterable<Uint8Array> {
  yield first;
  while (!pieces.isDone) {
    await slices.next();
    yield Buffer.from(pieces.next(slices), 'utf8');
  }
}

/** The text of a JSON array that may be long, in pieces: each ends behind an item. */
export class JsonArrayPieces<T> {
  readonly #items: Iterator<T>;
  readonly #textOf: (item: T) => string | undefined;
  #separator = '[';
  isDone = false;

  constructor(items: Iterable<T>, textOf: (item: T) => string | undefined) {
    this.#items = items[Symbol.iterator]();
    this.#textOf = textOf;
  }

  /** Returns the items that there is room and time for; at the end of the array, with the closing bracket. */
  next(slices: TimeSlices): string {
    let text = '';
    for (let count = 1; text.length < PIECE_CHARACTERS_MAX; count++) {
      if (count % ITEMS_A_LOOK === 0 && slices.isOver) break;
      const item = this.#items.next();
      if (item.done === true) {
        this.isDone = true;
        text += this.#separator === '[' ? '[]' : ']';
        break;
      }
      const itemText = this.#textOf(item.value);
      if (itemText === undefined) continue;
      text += this.#separator + itemText;
      this.#separator = ',';
    }
    return text;
  }
}
