/**
 * Answers as they are kept under clients' keys, many in a row (family 'blob', id · a · number), in the order they were
 * given:
 *
 *     row      u8 version · u48 number of the row · records
 *     record   u8 outcome · u8 reject code · u48 ms since 1970 · identity · method · digest · u32 length
 *              · data or message
 *     identity u8 length of the caller · caller · key
 *     digest   of the argument: = and the argument, up to 32 bytes; # and its SHA-256 above
 *
 * Numbers are little-endian; texts and bytes carry their length. The layout belongs to the version of the state's
 * format. What is read may be damaged: every length is checked, and an error names the row.
 *
 * Main thread: bytes in, records out, and back.
 */
import { RecordReader, RecordWriter } from '../../bytes/index.ts';
import type { Outcome, RejectCode } from '../../ic/index.ts';

const VERSION = 1;
const ROW_HEADER_BYTES = 7;
const OUTCOMES = ['reply', 'reject', 'trap', 'limit', 'noReply', 'outOfCycles', 'unavailable'] as const;

/** The call that an answer belongs to. */
export interface AnsweredCall {
  readonly caller: Uint8Array;
  /** Visible ASCII characters. */
  readonly key: string;
  readonly method: string;
  /** A character a byte. */
  readonly digest: string;
}

export interface AnswerRecord extends AnsweredCall {
  readonly outcome: Outcome;
}

/** Where a record is in its row, and what the index needs of it. */
interface RecordPlace {
  readonly caller: Uint8Array;
  readonly key: string;
  readonly givenMs: number;
  readonly offset: number;
  readonly bytes: number;
}

/** A row that is being written. */
export class AnswerRow {
  readonly #out = new RecordWriter();
  number = 0;

  begin(number: number): this {
    this.number = number;
    this.#out.begin();
    this.#out.u8(VERSION);
    this.#out.u48(number);
    return this;
  }

  get bytes(): number {
    return this.#out.length;
  }

  add({ caller, key, method, digest }: AnsweredCall, outcome: Outcome, givenMs: number): void {
    const out = this.#out;
    out.u8(OUTCOMES.indexOf(outcome.kind));
    out.u8(outcome.kind === 'reply' ? 0 : outcome.code);
    out.u48(Math.floor(givenMs));
    out.count(1 + caller.length + key.length);
    out.u8(caller.length);
    out.raw(caller);
    out.characters(key);
    out.text(method);
    out.latin1(digest);
    if (outcome.kind === 'reply') out.sized(outcome.data);
    else out.sizedText(outcome.message);
  }

  /** Valid until something is added. */
  view(): Uint8Array {
    return this.#out.view();
  }
}

/** Throws ServerError `state-corrupt` where the bytes do not say what they should. */
export class AnswerRowReader extends RecordReader {
  readonly #length: number;

  constructor(row: Uint8Array, name: string) {
    super(row, `the row ${name} of kept answers`);
    this.#length = row.length;
  }

  /** Number of the row. */
  number(): number {
    this.open(0, this.#length);
    const version = this.u8();
    if (version !== VERSION) throw this.malformed(`version ${version}`);
    return this.u48();
  }

  /** All of the row's records. */
  places(): readonly RecordPlace[] {
    const places: RecordPlace[] = [];
    let offset = ROW_HEADER_BYTES;
    while (offset < this.#length) {
      this.open(offset, this.#length);
      this.raw(2);
      const givenMs = this.u48();
      const { caller, key } = this.#identity();
      this.data();
      this.data();
      this.skipSized();
      places.push({ caller, key, givenMs, offset, bytes: this.at - offset });
      offset = this.at;
    }
    return places;
  }

  record(offset: number, bytes: number): AnswerRecord {
    this.open(offset, offset + bytes);
    const kind = this.oneOf(OUTCOMES);
    const code = this.u8();
    this.u48();
    const { caller, key } = this.#identity();
    const method = this.text();
    const digest = this.latin1();
    const nothing = { instructions: 0, charge: 0 };
    if (kind === 'reply') return { caller, key, method, digest, outcome: { kind, data: this.sized(), ...nothing } };
    if (code < 1 || code > 6) throw this.malformed(`reject code ${code}`);
    const outcome: Outcome = { kind, code: code as RejectCode, message: this.sizedText(), ...nothing };
    return { caller, key, method, digest, outcome };
  }

  /** The caller is a view. */
  #identity(): Pick<AnsweredCall, 'caller' | 'key'> {
    const length = this.count();
    const callerLength = this.u8();
    if (callerLength >= length) throw this.malformed(`a caller of ${callerLength} bytes in ${length}`);
    return { caller: this.raw(callerLength), key: this.characters(length - 1 - callerLength) };
  }
}
