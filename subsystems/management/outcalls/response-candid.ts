/**
 * Responses as Candid messages, written once, straight from their bytes: by way of JSON, as other results go, a body would be base64
 * in between and be copied five times.
 */
import type { OutcallHeader, OutcallResponse } from '../../outcalls/index.ts';

const RECORD = 0x6c;
const VEC = 0x6d;
const NAT = 0x7d;
const NAT8 = 0x7b;
const TEXT = 0x71;

/** Hashes of the fields' names. A record's fields are in their order on the wire. */
const FIELD = {
  status: 100_394_802,
  context: 427_267_567,
  value: 834_174_833,
  body: 1_092_319_906,
  name: 1_224_700_491,
  headers: 1_661_489_734,
  response: 2_718_740_097,
} as const;

const MAGIC = [...Buffer.from('DIDL')];
/** Types 0 to 3: `http_request_result`, `blob`, `vec http_header`, `http_header`. */
const RESULT_TYPES = [
  [RECORD, 3, leb(FIELD.status), NAT, leb(FIELD.body), 1, leb(FIELD.headers), 2],
  [VEC, NAT8],
  [VEC, 3],
  [RECORD, 2, leb(FIELD.value), TEXT, leb(FIELD.name), TEXT],
].flat(2);
/** `(http_request_result)` */
const RESULT_HEAD = Uint8Array.from([MAGIC, 4, RESULT_TYPES, 1, 0].flat());
/** Type 4: `record { context : blob; response : http_request_result }`. */
const ARGUMENT_TYPE = [RECORD, 2, leb(FIELD.context), 1, leb(FIELD.response), 0].flat();
const ARGUMENT_HEAD = Uint8Array.from([MAGIC, 5, RESULT_TYPES, ARGUMENT_TYPE, 1, 4].flat());

/** What `http_request` answers. */
export function candidOfResponse(response: OutcallResponse): Uint8Array {
  const writer = new Writer(RESULT_HEAD, sizeOf(response));
  writer.response(response);
  return writer.bytes;
}

/** What a transform is called with. */
export function candidOfTransformArgument(response: OutcallResponse, context: Uint8Array): Uint8Array {
  const writer = new Writer(ARGUMENT_HEAD, sizeOfBlob(context) + sizeOf(response));
  writer.blob(context);
  writer.response(response);
  return writer.bytes;
}

class Writer {
  /** Of its own memory: what is large is handed over to the executor. */
  readonly bytes: Buffer;
  #at: number;

  constructor(head: Uint8Array, size: number) {
    this.bytes = Buffer.allocUnsafeSlow(head.length + size);
    this.bytes.set(head);
    this.#at = head.length;
  }

  response({ status, headers, body }: OutcallResponse): void {
    this.#leb(status);
    this.blob(body);
    this.#leb(headers.length);
    for (const { name, value } of headers) {
      this.#text(value);
      this.#text(name);
    }
  }

  blob(blob: Uint8Array): void {
    this.#leb(blob.length);
    this.bytes.set(blob, this.#at);
    this.#at += blob.length;
  }

  #text(text: string): void {
    this.#leb(Buffer.byteLength(text));
    this.#at += this.bytes.write(text, this.#at);
  }

  #leb(value: number): void {
    let rest = value;
    for (; rest > 127; rest >>>= 7) this.bytes[this.#at++] = (rest & 127) | 128;
    this.bytes[this.#at++] = rest;
  }
}

function sizeOf({ status, headers, body }: OutcallResponse): number {
  let size = lebSize(status) + sizeOfBlob(body) + lebSize(headers.length);
  for (const header of headers) size += sizeOfHeader(header);
  return size;
}

function sizeOfBlob({ length }: Uint8Array): number {
  return lebSize(length) + length;
}

function sizeOfHeader({ name, value }: OutcallHeader): number {
  const nameBytes = Buffer.byteLength(name);
  const valueBytes = Buffer.byteLength(value);
  return lebSize(nameBytes) + nameBytes + lebSize(valueBytes) + valueBytes;
}

function lebSize(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest >>>= 7) size++;
  return size;
}

function leb(value: number): readonly number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
  return [...bytes, rest];
}
