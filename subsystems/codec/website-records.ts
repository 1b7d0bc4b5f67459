/**
 * The records of websites (docs/websites.md), converted directly from and to bytes; headers and a body take the place
 * that JSON has for calls.
 *
 * A request's size is known before it is written, so it is written once from beginning to end. The head of a reply is
 * compiled into a plan of readers, and the plans of the last heads are kept: a website answers with the same types
 * again and again. A body is not copied: it is a part of the reply. Texts have one character for each byte (Latin-1),
 * as in node:http; the bytes are UTF-8, as in every Candid text.
 *
 * Replies are hostile. A body costs nothing, however long it is; everything else has a limit of its own: bytes of the
 * head, headers, bytes of headers, and the work for values that nobody asked for (WORK_BASE, whatever the length). So a
 * reply of any size is read within milliseconds, and none goes to another thread.
 */
import { IDL } from '@dfinity/candid';
import { isUtf8 } from 'node:buffer';
import { at, ServerError } from '../../kernel/index.ts';
import { CandidReader } from './candid-reader.ts';
import { badCandid, quotaExceeded, unreachable } from './faults.ts';
import type { WebsiteCallback, WebsiteChunk, WebsiteCodec, WebsiteRequest, WebsiteResponse } from './index.ts';
import { startsWith } from './key-table.ts';
import { lebSize, LOOP_CHARACTERS_MAX, SizedOutput } from './sized-output.ts';
import { SkipTable } from './skip-candid.ts';
import { decodeHeader, encodeHeader } from './type-table.ts';
import { type CandidField, type CandidType, graphOfTypes, hashName, isBlob, Op, TYPE_NAMES } from './types.ts';
import { NO_BYTES } from '../bytes/index.ts';

/** Bytes of a reply's type table: the types of websites have some hundred. */
const HEAD_BYTES_MAX = 16 * 1024;
/** Headers of one answer, and their bytes: more than any browser accepts. */
export const RESPONSE_HEADERS_MAX = 1_000;
export const RESPONSE_HEADER_BYTES_MAX = 64 * 1024;
/** Heads whose plans are kept: enough for this many websites in use at the same time. */
const PLANS_MAX = 8;

// ---- requests

const HeaderField = IDL.Tuple(IDL.Text, IDL.Text);
const UPDATE_FIELDS = {
  method: IDL.Text,
  url: IDL.Text,
  headers: IDL.Vec(HeaderField),
  body: IDL.Vec(IDL.Nat8),
} as const;
const QUERY_FIELDS = { ...UPDATE_FIELDS, certificate_version: IDL.Opt(IDL.Nat16) } as const;
/** Order of the fields in a message, by their hashes; RequestWriter relies on it. */
const FIELD_ORDER = 'url method body headers certificate_version';

function requestHead(fields: Record<string, IDL.Type>): Uint8Array {
  const graph = graphOfTypes([IDL.Record(fields)]);
  const order = at(graph.roots, 0, 'record')
    .fields.map(({ label }) => label)
    .join(' ');
  if (!FIELD_ORDER.startsWith(order)) unreachable(`fields of a website request are in the order ${order}`);
  return encodeHeader(graph);
}

class RequestWriter {
  readonly #queryHead = requestHead(QUERY_FIELDS);
  readonly #updateHead = requestHead(UPDATE_FIELDS);

  write({ method, url, headers, body }: WebsiteRequest, isUpdate: boolean): Uint8Array {
    const head = isUpdate ? this.#updateHead : this.#queryHead;
    let size = head.length + textSize(url) + textSize(method) + lebSize(body.length) + body.length;
    size += lebSize(headers.length / 2) + (isUpdate ? 0 : 1);
    for (const text of headers) size += textSize(text);
    const output = new SizedOutput(Buffer.allocUnsafe(size), head);
    writeText(output, url, 'the target');
    writeText(output, method, 'the method');
    output.writeLeb(body.length);
    output.writeBytes(body);
    output.writeLeb(headers.length / 2);
    for (let place = 0; place < headers.length; place += 2) {
      const name = at(headers, place, 'name of a header');
      writeText(output, name, 'the name of a header');
      writeText(output, at(headers, place + 1, 'value of a header'), name);
    }
    if (!isUpdate) output.writeLeb(0);
    return output.bytes;
  }
}

/** Writes a text. Throws ServerError `invalid` for bytes that no Candid text can have. */
function writeText(output: SizedOutput, text: string, what: string): void {
  const { length } = text;
  output.writeLeb(length);
  const { bytes, position: start } = output;
  output.position = start + length;
  if (length <= LOOP_CHARACTERS_MAX) {
    let all = 0;
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index);
      all |= code;
      bytes[start + index] = code;
    }
    if (all < 128) return;
  } else bytes.write(text, start, 'latin1');
  if (isUtf8(bytes.subarray(start, output.position))) return;
  const where = what.startsWith('the ') ? what : `header ${what.slice(0, 40)}`;
  throw new ServerError(
    'invalid',
    'request-not-text',
    `${where} is not UTF-8: an actor gets text, and these bytes are not text`,
  );
}

function textSize({ length }: string): number {
  return length < 128 ? length + 1 : length + lebSize(length);
}

// ---- replies

/** Result that the readers fill in. */
interface ReplyDraft {
  status: number;
  headers: string[];
  body: Uint8Array;
  isUpgrade: boolean;
  callback: WebsiteCallback | undefined;
  token: Uint8Array | undefined;
}
type Read = (reader: CandidReader, draft: ReplyDraft) => void;

interface ReplyPlan {
  readonly head: Uint8Array;
  readonly read: Read;
}

/** Readers of a record's fields, by the fields' ids. */
type FieldReaders = ReadonlyMap<number, (type: CandidType, types: ReplyTypes) => Read>;

/** State for compiling a plan. */
class ReplyTypes {
  readonly skip: SkipTable;
  readonly nodes: readonly CandidType[];
  constructor(nodes: readonly CandidType[]) {
    this.nodes = nodes;
    this.skip = new SkipTable(nodes.length);
  }

  /** Returns a function that makes a message of one value of this type from the value's bytes. */
  messageOf(type: CandidType): (value: Uint8Array) => Uint8Array {
    let head: Uint8Array | undefined;
    return (value) => {
      head ??= this.#headOf(type);
      const message = new Uint8Array(head.length + value.length);
      message.set(head);
      message.set(value, head.length);
      return message;
    };
  }

  #headOf(type: CandidType): Uint8Array {
    if (this.nodes.some(({ op }) => op === Op.FUTURE))
      throw badCandid('token', 'it is of a type of a later Candid version');
    return encodeHeader({ roots: [type], nodes: this.nodes });
  }
}

const fieldsOf = (readers: Record<string, (type: CandidType, types: ReplyTypes) => Read>): FieldReaders =>
  new Map(Object.entries(readers).map(([name, reader]) => [hashName(name), reader]));

function misfit(field: string, expected: string, found: CandidType): ServerError {
  return badCandid(field, `expected ${expected}, found ${TYPE_NAMES[found.op]}`);
}

/** Reads an optional field: a value of the type in an `opt`, or without one. */
function optional(type: CandidType, types: ReplyTypes, readInner: (inner: CandidType) => Read): Read {
  if (type.op === Op.NULL || type.op === Op.RESERVED) return skipping(type, types);
  if (type.op !== Op.OPT) return readInner(type);
  const read = compiledLate(() => readInner(type.inner));
  return (reader, draft) => {
    reader.charge(1);
    if (reader.readFlag('an opt')) read(reader, draft);
  };
}

/** Compiles when the first value comes: an impossible type does not matter before. */
function compiledLate(compile: () => Read): Read {
  let read: Read | undefined;
  return (reader, draft) => (read ??= compile())(reader, draft);
}

function skipping(type: CandidType, types: ReplyTypes): Read {
  const slot = types.skip.of(type);
  return (reader) => slot.run(reader);
}

/** Reads the known fields, and skips the others. The fields in `required` must be there. */
function recordReader(
  type: CandidType,
  types: ReplyTypes,
  known: FieldReaders,
  required: readonly string[],
  what: string,
): Read {
  if (type.op !== Op.RECORD) throw misfit(what, 'a record', type);
  const ids = new Set(type.fields.map(({ id }) => id));
  const missing = required.find((name) => !ids.has(hashName(name)));
  if (missing !== undefined) throw badCandid(what, `it lacks the field ${missing}`);
  const reads = type.fields.map(({ id, type: fieldType }: CandidField) => {
    const reader = known.get(id);
    return reader === undefined ? skipping(fieldType, types) : reader(fieldType, types);
  });
  return (reader, draft) => {
    reader.charge(1);
    for (const read of reads) read(reader, draft);
  };
}

const statusReader = (type: CandidType): Read => {
  if (type.op !== Op.NAT16) throw misfit('status_code', 'nat16', type);
  return (reader, draft) => {
    draft.status = reader.readFixed(2, false);
  };
};

const bodyReader = (type: CandidType): Read => {
  if (type.op !== Op.VEC) throw misfit('body', 'a blob', type);
  const isBytes = isBlob(type);
  return (reader, draft) => {
    const count = isBytes ? reader.readByteCount('the body') : reader.readLength('the body');
    // An empty vec fits, whatever its element type.
    if (!isBytes && count > 0) throw badCandid('body', 'expected a blob, found a vec of another type');
    draft.body = count === 0 ? NO_BYTES : reader.bytes.subarray(reader.position, reader.position + count);
    reader.position += count;
  };
};

const upgradeReader = (type: CandidType, types: ReplyTypes): Read =>
  optional(type, types, (inner) => {
    if (inner.op !== Op.BOOL) return skipping(inner, types);
    return (reader, draft) => {
      draft.isUpgrade = reader.readFlag('a bool');
    };
  });

const headersReader = (type: CandidType, types: ReplyTypes): Read => {
  if (type.op !== Op.VEC) throw misfit('headers', 'vec record { text; text }', type);
  const read = compiledLate(() => headerReader(type.inner, types));
  return (reader, draft) => {
    const count = reader.readLength('headers');
    if (count > RESPONSE_HEADERS_MAX)
      throw quotaExceeded('headers', `there are ${count}; at most ${RESPONSE_HEADERS_MAX} are taken`);
    const start = reader.position;
    for (let index = 0; index < count; index++) {
      read(reader, draft);
      if (reader.position - start > RESPONSE_HEADER_BYTES_MAX)
        throw quotaExceeded('headers', `they have more than ${RESPONSE_HEADER_BYTES_MAX} bytes`);
    }
  };
};

/** Reads a record with the fields 0 and 1, both texts. */
function headerReader(type: CandidType, types: ReplyTypes): Read {
  const isPair = type.op === Op.RECORD && type.fields[0]?.id === 0 && type.fields[1]?.id === 1;
  if (!isPair || type.fields[0]?.type.op !== Op.TEXT || type.fields[1]?.type.op !== Op.TEXT)
    throw badCandid('headers', 'expected vec record { text; text }');
  const others = type.fields.slice(2).map((field) => types.skip.of(field.type));
  return (reader, draft) => {
    reader.charge(2);
    draft.headers.push(readBytesText(reader), readBytesText(reader));
    for (const other of others) other.run(reader);
  };
}

/** Reads a text, one character for each byte. */
function readBytesText(reader: CandidReader): string {
  const length = reader.readByteCount('a text');
  const start = reader.position;
  reader.position = start + length;
  if (length > RESPONSE_HEADER_BYTES_MAX)
    throw quotaExceeded('headers', `one has ${length} bytes; at most ${RESPONSE_HEADER_BYTES_MAX} are taken`);
  const { bytes } = reader;
  if (length <= LOOP_CHARACTERS_MAX) {
    let text = '';
    let all = 0;
    for (let place = start; place < start + length; place++) {
      const byte = bytes[place] ?? 0;
      all |= byte;
      text += String.fromCharCode(byte);
    }
    if (all < 128) return text;
  }
  reader.checkUtf8(start, start + length);
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, length).toString('latin1');
}

const CALLBACK_FIELDS: FieldReaders = fieldsOf({
  callback: (type) => {
    if (type.op !== Op.FUNC) throw misfit('streaming_strategy.Callback.callback', 'a func', type);
    return (reader, draft) => {
      if (!reader.readFlag('a func')) throw badCandid('streaming_strategy', 'an opaque reference cannot be called');
      const canister = reader.readPrincipal();
      draft.callback = { canister, method: reader.readText('a method name'), token: NO_BYTES };
    };
  },
  token: (type, types) => tokenReader(type, types),
});

/** Takes the token unchanged, without looking at its content. */
function tokenReader(type: CandidType, types: ReplyTypes): Read {
  const skip = types.skip.of(type);
  const messageOf = types.messageOf(type);
  return (reader, draft) => {
    const start = reader.position;
    skip.run(reader);
    draft.token = messageOf(reader.bytes.subarray(start, reader.position));
  };
}

const strategyReader = (type: CandidType, types: ReplyTypes): Read =>
  optional(type, types, (inner) => {
    // Under the rules of `opt` the value would be null, and a part of the body would pass for all of it.
    if (inner.op !== Op.VARIANT) throw misfit('streaming_strategy', 'variant { Callback }', inner);
    const tags = inner.fields.map(({ id, type: tagType }) =>
      compiledLate(() => {
        if (id !== hashName('Callback')) throw badCandid('streaming_strategy', 'expected variant { Callback }');
        return recordReader(tagType, types, CALLBACK_FIELDS, ['callback', 'token'], 'streaming_strategy.Callback');
      }),
    );
    return (reader, draft) => {
      const index = reader.readLength('a variant');
      const read = tags[index];
      if (read === undefined) throw badCandid('streaming_strategy', `it has tag ${index} of ${tags.length}`);
      read(reader, draft);
    };
  });

const RESPONSE_FIELDS = fieldsOf({
  status_code: statusReader,
  headers: headersReader,
  body: bodyReader,
  upgrade: upgradeReader,
  streaming_strategy: strategyReader,
});
const CHUNK_FIELDS = fieldsOf({
  body: bodyReader,
  token: (type, types) => optional(type, types, (inner) => tokenReader(inner, types)),
});

/** Reads replies of one kind; `compile` makes the reader of their first value. */
class ReplyReader {
  readonly #compile: (type: CandidType, types: ReplyTypes) => Read;
  /** Plans, the most recently used one first. */
  readonly #plans: ReplyPlan[] = [];
  readonly #reader = new CandidReader();

  constructor(compile: (type: CandidType, types: ReplyTypes) => Read) {
    this.#compile = compile;
  }

  read(reply: Uint8Array): ReplyDraft {
    const draft: ReplyDraft = {
      status: 0,
      headers: [],
      body: NO_BYTES,
      isUpgrade: false,
      callback: undefined,
      token: undefined,
    };
    const reader = this.#reader;
    try {
      reader.start(reply, 'reply', 0);
      this.#planOf(reply).read(reader, draft);
      if (reader.position !== reader.end)
        throw badCandid('reply', `${reader.end - reader.position} bytes are left over`);
      return draft;
    } finally {
      reader.release();
    }
  }

  #planOf(reply: Uint8Array): ReplyPlan {
    const plans = this.#plans;
    for (let index = 0; index < plans.length; index++) {
      const plan = plans[index];
      if (plan === undefined || reply.length < plan.head.length || !startsWith(reply, 0, plan.head)) continue;
      this.#reader.position = plan.head.length;
      if (index > 0) {
        plans.splice(index, 1);
        plans.unshift(plan);
      }
      return plan;
    }
    const plan = this.#planned(reply);
    plans.unshift(plan);
    if (plans.length > PLANS_MAX) plans.pop();
    return plan;
  }

  #planned(reply: Uint8Array): ReplyPlan {
    const reader = this.#reader;
    reader.end = Math.min(reply.length, HEAD_BYTES_MAX);
    const { roots, nodes } = decodeHeader(reader);
    reader.end = reply.length;
    const [first, ...others] = roots;
    if (first === undefined) throw badCandid('reply', 'it has no value');
    const types = new ReplyTypes(nodes);
    const readFirst = this.#compile(first, types);
    const skips = others.map((type) => types.skip.of(type));
    const read: Read = (from, draft) => {
      readFirst(from, draft);
      for (const skip of skips) skip.run(from);
    };
    return { head: reply.slice(0, reader.position), read };
  }
}

/** The codec of websites. */
export class WebsiteRecords implements WebsiteCodec {
  readonly #writer = new RequestWriter();
  readonly #responses = new ReplyReader((type, types) =>
    recordReader(type, types, RESPONSE_FIELDS, ['status_code', 'headers', 'body'], 'reply'),
  );
  /** Reads parts of bodies; older actors answer with an `opt` of the record. */
  readonly #chunks = new ReplyReader((type, types) =>
    optional(type, types, (inner) => recordReader(inner, types, CHUNK_FIELDS, ['body'], 'reply')),
  );

  encodeRequest(request: WebsiteRequest, isUpdate: boolean): Uint8Array {
    return this.#writer.write(request, isUpdate);
  }

  decodeResponse(reply: Uint8Array): WebsiteResponse {
    const { status, headers, body, isUpgrade, callback, token } = this.#responses.read(reply);
    const streaming = callback === undefined || token === undefined ? undefined : { ...callback, token };
    return { status, headers, body, isUpgrade, streaming };
  }

  decodeChunk(reply: Uint8Array): WebsiteChunk {
    const { body, token } = this.#chunks.read(reply);
    return { body, token };
  }
}
