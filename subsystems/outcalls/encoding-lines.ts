/**
 * Leaves empty elements out of the lists of `transfer-encoding` in heads, as RFC 9110, 5.6.1.2, asks of who receives
 * one: undici's parser knows `chunked` only where nothing is behind it. Lines come unfolded, in pieces of any size; one
 * of that name is held until it is whole.
 */
const NAME = 'transfer-encoding:';
const CRLF = '\r\n';
const LF = 0x0a;
/** Longest line that is held; longer ones are passed on, and the parser bounds them. */
const HELD_BYTES_MAX = 64 * 1024;
const NOTHING: Buffer = Buffer.alloc(0);

export class EncodingLines {
  #held: Buffer = NOTHING;
  #isAtBegin = true;
  /** True if a line of the head had no element at all, and was left out. */
  hasEmpty = false;

  /** Called before the next head. */
  begin(): void {
    this.#held = NOTHING;
    this.#isAtBegin = true;
    this.hasEmpty = false;
  }

  /** Returns the bytes of a head that can be passed on. */
  add(piece: Buffer): Buffer {
    const bytes = this.#held.length === 0 ? piece : Buffer.concat([this.#held, piece]);
    this.#held = NOTHING;
    const kept: Buffer[] = [];
    let from = 0;
    for (let at = 0; at < bytes.length;) {
      const isOurs = this.#isAtBegin && mayBeOurs(bytes, at);
      const lineFeed = bytes.indexOf(LF, at);
      const end = lineFeed + 1 || bytes.length;
      this.#isAtBegin = lineFeed >= 0;
      if (isOurs) {
        kept.push(bytes.subarray(from, at));
        const line = bytes.subarray(at, end);
        from = end;
        if (lineFeed >= 0) kept.push(this.#withoutEmpty(line));
        else if (line.length > HELD_BYTES_MAX) kept.push(line);
        else {
          this.#held = line;
          this.#isAtBegin = true;
        }
      }
      at = end;
    }
    return kept.length === 0 ? bytes : Buffer.concat([...kept, bytes.subarray(from)]);
  }

  #withoutEmpty(line: Buffer): Buffer {
    const text = line.toString('latin1');
    // A line that is cut off behind the colon is no shorter than this.
    if (text.length < NAME.length + CRLF.length || !text.endsWith(CRLF)) return line;
    const elements = text
      .slice(NAME.length, -CRLF.length)
      .split(',')
      .map((element) => element.replaceAll('\t', ' ').trim());
    const full = elements.filter((element) => element !== '');
    if (full.length === elements.length) return line;
    if (full.length > 0) return Buffer.from(`${text.slice(0, NAME.length)}${full.join(', ')}${CRLF}`, 'latin1');
    this.hasEmpty = true;
    return NOTHING;
  }
}

/** Tells whether a line has this name, or may have it when more of it is there. */
function mayBeOurs(bytes: Buffer, at: number): boolean {
  const begin = bytes.toString('latin1', at, at + NAME.length).toLowerCase();
  return begin === NAME.slice(0, begin.length);
}
