/**
 * Bodies of `multipart/form-data` (RFC 7578), for forms of few parts with known names.
 *
 * A part is taken as it arrives, so that a large one is in memory once. Every part has to be wanted: an unknown or
 * repeated name, headers that say nothing or too much, a coding or charset that would have to be undone, and an end
 * that is missing are refused, because a form that is half understood would do something else than what was asked
 * for. What splits the body at its boundary is dicer (of @fastify/busboy), which keeps no more than a line of it;
 * what parts mean is decided here.
 */
import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { Dicer } from '@fastify/busboy';
import { ServerError } from '../../kernel/index.ts';
import { GrowingBody, tooLarge } from './request-body.ts';

/** Headers of one part, names and values: a name, a file name and a type, with room. */
const HEADER_BYTES_MAX = 4096;
/**
 * Bytes of a header that dicer keeps. It cuts off silently what comes beyond them, so this has to be more than a part
 * may have.
 */
const HEADER_BYTES_KEPT = 2 * HEADER_BYTES_MAX;
const HEADER_PAIRS_MAX = 16;
/**
 * Bytes that are split before anybody looks whether the form is refused: of parts without anything 64 KiB would be
 * eleven thousand, 3 µs each.
 */
const SPLIT_BYTES = 8192;
/** RFC 2046, section 5.1.1. */
const BOUNDARY = /^[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]$/;
const SHOWN_CHARACTERS_MAX = 80;
/**
 * A parameter whose value is a token or a quoted string of RFC 9110. Browsers write a quote in a name as %22, curl as
 * \".
 */
const PARAMETER = /\s*;\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([!#$%&'*+.^_`|~0-9A-Za-z-]+))/y;

/** A part of a form that is known. */
export interface PartKind {
  readonly bytesMax: number;
  /** True if the part has to be UTF-8. */
  readonly isText: boolean;
}

type Header = Readonly<Record<string, readonly string[] | undefined>>;

/** Returns true if a request says that its body is a form. */
export function isForm(request: IncomingMessage): boolean {
  return /^\s*multipart\/form-data\s*(;|$)/i.test(request.headers['content-type'] ?? '');
}

/** The boundary of the body. Throws ServerError `bad-form`. */
export function boundaryOf(contentType: string): string {
  const parameters = parametersOf(contentType.replace(/^\s*multipart\/form-data/i, ''));
  const given = (parameters ?? []).filter(([name]) => name === 'boundary').map(([, value]) => value);
  const [boundary] = given;
  if (given.length === 1 && boundary !== undefined && BOUNDARY.test(boundary)) return boundary;
  const type = shown(contentType);
  throw badForm(
    `the Content-Type ${type} has no boundary that a body can be split at: let the client write that header`,
  );
}

/** Takes a body piece by piece, and gives its parts by name at the end. */
export class FormReader<Name extends string> {
  readonly #kinds: Readonly<Record<Name, PartKind>>;
  readonly #parts = new Map<Name, GrowingBody>();
  readonly #dicer: Dicer;
  readonly #ended = Promise.withResolvers<void>();
  #seen = 0;
  #understood = 0;
  #fault: ServerError | undefined;

  constructor(boundary: string, kinds: Readonly<Record<Name, PartKind>>) {
    this.#kinds = kinds;
    this.#dicer = new Dicer({
      boundary,
      maxHeaderSize: HEADER_BYTES_KEPT,
      maxHeaderPairs: HEADER_PAIRS_MAX,
    } as ConstructorParameters<typeof Dicer>[0]);
    this.#dicer.on('part', (part) => this.#began(part));
    this.#dicer.on('finish', () => this.#ended.resolve());
    this.#dicer.on('error', () => {
      this.#fail(badForm('the form has no end: its last line has to be the boundary between two pairs of dashes'));
      this.#ended.resolve();
    });
  }

  /** Throws ServerError. */
  take(piece: Buffer): void | Promise<void> {
    this.#refuse();
    let hasRoom = true;
    for (let at = 0; at < piece.length; at += SPLIT_BYTES) {
      // Bytes behind the last boundary belong to no part.
      if (!this.#dicer.writable) return undefined;
      hasRoom = this.#dicer.write(piece.subarray(at, at + SPLIT_BYTES));
      this.#refuse();
    }
    if (hasRoom || !this.#dicer.writable) return undefined;
    return new Promise((resolve) => this.#dicer.once('drain', resolve));
  }

  /** Throws ServerError. */
  async end(): Promise<ReadonlyMap<Name, Uint8Array>> {
    if (this.#dicer.writable) this.#dicer.end();
    await this.#ended.promise;
    this.#refuse();
    if (this.#understood < this.#seen) throw withoutHeaders();
    return new Map(Array.from(this.#parts, ([name, gathered]) => [name, this.#bytesOf(name, gathered)]));
  }

  #began(part: NodeJS.ReadableStream): void {
    // Headers of the last part would have come before the next part: a form of parts without headers is not read to its
    // end.
    if (this.#understood < this.#seen) this.#fail(withoutHeaders());
    this.#seen++;
    let gathered: GrowingBody | undefined;
    let bytesMax = 0;
    part.on('header', (header: Header) => {
      if (this.#fault !== undefined) return;
      this.#understood++;
      try {
        const name = this.#nameOf(header);
        ({ bytesMax } = this.#kinds[name]);
        gathered = new GrowingBody(bytesMax);
        this.#parts.set(name, gathered);
      } catch (error) {
        if (!(error instanceof ServerError)) throw error;
        this.#fail(error);
      }
    });
    part.on('data', (data: Buffer) => {
      if (this.#fault !== undefined || gathered === undefined) return;
      if (gathered.length + data.length > bytesMax)
        this.#fail(tooLarge(`a part of the form is larger than ${bytesMax} bytes, the most it may have`));
      else gathered.append(data);
    });
    // The form itself reports that it broke off.
    part.on('error', () => undefined);
  }

  #nameOf(header: Header): Name {
    const { 'content-disposition': dispositions = [], 'content-transfer-encoding': codings = [] } = header;
    // Headers that might follow these also say how the part is to be read.
    if (Object.values(header).flat().length >= HEADER_PAIRS_MAX)
      throw badForm(`a part has ${HEADER_PAIRS_MAX} headers or more: its name and its type are enough`);
    if (bytesIn(header) > HEADER_BYTES_MAX)
      throw badForm(`a part's headers have more than ${HEADER_BYTES_MAX} bytes: its name and its type are enough`);
    const [disposition = ''] = dispositions;
    const parameters = /^form-data\s*(;|$)/i.test(disposition)
      ? parametersOf(disposition.slice('form-data'.length))
      : undefined;
    if (parameters === undefined || dispositions.length !== 1)
      throw badForm(`a part says ${shown(disposition)} instead of: Content-Disposition: form-data; name="…"`);
    const names = parameters
      .filter(([name]) => name === 'name' || name === 'name*')
      .map(([name, value]) => (name === 'name' ? value : ''));
    const [name = ''] = names;
    const known = Object.keys(this.#kinds).join(', ');
    if (names.length !== 1 || !this.#isKnown(name))
      throw badForm(`there is no part ${shown(names.length === 1 ? name : disposition)}: a form may have ${known}`);
    if (this.#parts.has(name)) throw badForm(`the part ${name} is there twice`);
    if (!codings.every((coding) => /^\s*(7bit|8bit|binary)\s*$/i.test(coding)))
      throw badForm(`the part ${name} is encoded as ${shown(codings.join(', '))}: send it as it is`);
    for (const type of header['content-type'] ?? []) this.#refuseCharset(name, type);
    return name;
  }

  #isKnown(name: string): name is Name {
    return Object.hasOwn(this.#kinds, name);
  }

  #refuseCharset(name: Name, contentType: string): void {
    if (!this.#kinds[name].isText) return;
    const charset = /;\s*charset\s*=\s*"?([^";]*)/i.exec(contentType)?.[1]?.trim();
    if (charset === undefined || /^(utf-?8|us-ascii)$/i.test(charset)) return;
    throw badForm(`the part ${name} is text in ${shown(charset)}: send UTF-8`);
  }

  #bytesOf(name: Name, gathered: GrowingBody): Uint8Array {
    const bytes = gathered.take();
    if (this.#kinds[name].isText && !isUtf8(bytes)) throw badForm(`the part ${name} is not UTF-8`);
    return bytes;
  }

  #fail(error: ServerError): void {
    this.#fault ??= error;
  }

  #refuse(): void {
    if (this.#fault !== undefined) throw this.#fault;
  }
}

/** Names and values; dicer gives each byte as a character. */
function bytesIn(header: Header): number {
  const texts = Object.entries(header).flatMap(([name, values = []]) => values.flatMap((value) => [name, value]));
  return texts.reduce((bytes, text) => bytes + text.length, 0);
}

function withoutHeaders(): ServerError {
  return badForm('a part has no headers: each says its name (Content-Disposition)');
}

/** `; name="wasm"; filename=x`, names in lower case; undefined when it is something else. */
function parametersOf(text: string): (readonly [name: string, value: string])[] | undefined {
  const parameters: (readonly [string, string])[] = [];
  let at = 0;
  while (at < text.trimEnd().length) {
    PARAMETER.lastIndex = at;
    const match = PARAMETER.exec(text);
    if (match === null) return undefined;
    const [whole, name = '', quoted, plain = ''] = match;
    parameters.push([name.toLowerCase(), quoted === undefined ? plain : quoted.replace(/\\(.)/g, '$1')]);
    at += whole.length;
  }
  return parameters;
}

function shown(text: string): string {
  return JSON.stringify(text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text);
}

export function badForm(problem: string): ServerError {
  return new ServerError('invalid', 'bad-form', problem);
}
