/** Reads the body of `/install` and `/upgrade`: a module alone, or a form with a module and what belongs to it. */
import type { IncomingMessage } from 'node:http';
import { ServerError } from '../../kernel/index.ts';
import type { InitArgument } from '../canisters/index.ts';
import type { GivenFacts } from '../ic/index.ts';
import { badForm, boundaryOf, FormReader, isForm, type PartKind } from './multipart.ts';
import { bodyOf, GrowingBody, readPieces } from './request-body.ts';
import { DID_BYTES_MAX, GUARDED_BYTES_MAX, MODULE_BYTES_MAX } from './route-table.ts';
import { amountOf } from './routes/cycles.ts';
import { didTextOf } from './routes/candid.ts';

/** Decimal digits of 128 bits, with blanks around them. */
const CYCLES_BYTES_MAX = 64;
const OPEN_BRACKET = 0x5b;
/** Blanks in front of an argument that are looked through: more than anybody's editor leaves there. */
const LEADING_BLANKS_MAX = 4096;

const PARTS = {
  wasm: { bytesMax: MODULE_BYTES_MAX, isText: false },
  candid: { bytesMax: DID_BYTES_MAX, isText: true },
  /** The limit is that of an argument of a call. */
  args: { bytesMax: GUARDED_BYTES_MAX, isText: true },
  cycles: { bytesMax: CYCLES_BYTES_MAX, isText: true },
} as const satisfies Readonly<Record<string, PartKind>>;
type PartName = keyof typeof PARTS;

/** Bytes that tell whether a body is a module, raw (`\0asm`) or gzip. */
const HEAD_BYTES = 4;
const WASM_HEAD = Buffer.from('\0asm', 'latin1');
const GZIP_HEAD = Buffer.from([0x1f, 0x8b]);

interface CodeUpload {
  /** Raw or gzip. Undefined: the body is empty, or a form without module. */
  readonly module: Uint8Array | undefined;
  readonly argument: InitArgument | undefined;
  /** .did text. */
  readonly candidText: string | undefined;
  /** Starting balance. */
  readonly cycles: bigint | undefined;
}

/** Rejects with ServerError: `bad-form`, `body-too-large`, or what a part has in it. */
export async function readUpload(request: IncomingMessage): Promise<CodeUpload> {
  if (!isForm(request)) return moduleAlone(await bodyOf(request, MODULE_BYTES_MAX));
  const parts = await new UploadReader(request).read();
  return parts instanceof Uint8Array ? moduleAlone(parts) : uploadOf(parts);
}

/** A body that says it is a form may be a module all the same: its first bytes decide. */
class UploadReader {
  readonly #request: IncomingMessage;
  #head = Buffer.alloc(0);
  #module: GrowingBody | undefined;
  #form: FormReader<PartName> | undefined;

  constructor(request: IncomingMessage) {
    this.#request = request;
  }

  async read(): Promise<Uint8Array | ReadonlyMap<PartName, Uint8Array>> {
    await readPieces(this.#request, MODULE_BYTES_MAX, (piece) => this.#take(piece));
    if (this.#module !== undefined) return this.#module.take();
    // One that is too short for either; without a byte it is empty, like every other.
    if (this.#form === undefined) {
      if (this.#head.length === 0) return this.#head;
      await this.#decide();
    }
    return (await this.#form?.end()) ?? new Map();
  }

  #take(piece: Buffer): void | Promise<void> {
    if (this.#module !== undefined) return this.#module.append(piece);
    if (this.#form !== undefined) return this.#form.take(piece);
    this.#head = Buffer.concat([this.#head, piece]);
    return this.#head.length < HEAD_BYTES ? undefined : this.#decide();
  }

  #decide(): void | Promise<void> {
    const head = this.#head;
    if (startsWith(head, WASM_HEAD) || startsWith(head, GZIP_HEAD)) {
      this.#module = new GrowingBody(MODULE_BYTES_MAX);
      return this.#module.append(head);
    }
    this.#form = new FormReader(boundaryOf(this.#request.headers['content-type'] ?? ''), PARTS);
    return this.#form.take(head);
  }
}

function startsWith(bytes: Uint8Array, head: Uint8Array): boolean {
  return Buffer.compare(bytes.subarray(0, head.length), head) === 0;
}

function moduleAlone(body: Uint8Array): CodeUpload {
  const module = body.length === 0 ? undefined : body;
  return { module, argument: undefined, candidText: undefined, cycles: undefined };
}

function uploadOf(parts: ReadonlyMap<PartName, Uint8Array>): CodeUpload {
  const [module, candid, args, cycles] = (['wasm', 'candid', 'args', 'cycles'] as const).map((name) => parts.get(name));
  if (module?.length === 0) {
    throw badForm('the part wasm is empty: send a WebAssembly module, raw or gzip, or leave the part out');
  }
  return {
    module,
    argument: args === undefined ? undefined : argumentOf(args),
    candidText: candid === undefined ? undefined : didTextOf(candid),
    cycles: cycles === undefined ? undefined : amountOf(cycles),
  };
}

/** JSON is an array, Candid text begins with a parenthesis. */
function argumentOf(text: Uint8Array): InitArgument {
  const start = text.subarray(0, LEADING_BLANKS_MAX + 1);
  const first = start.findIndex((byte) => byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09);
  if (first < 0 && start.length > LEADING_BLANKS_MAX)
    throw badForm(`the part args begins with more than ${LEADING_BLANKS_MAX} blanks: leave them out`);
  if (first < 0)
    throw badForm('the part args is empty: send a JSON array or Candid text, "(5, null)", or leave it out');
  return { kind: text[first] === OPEN_BRACKET ? 'json' : 'candid', text };
}

/** The argument of a hook, which the query or the form may have. Throws ServerError `bad-form` if both do. */
export function argumentFrom(
  query: Uint8Array | undefined,
  { argument }: CodeUpload,
): Uint8Array | InitArgument | undefined {
  if (query !== undefined && argument !== undefined) {
    throw badForm('the argument is there twice: in ?arg= and in the part args; keep one');
  }
  return query ?? argument;
}

/** Cycles are for who is made. Throws ServerError `bad-form`. */
export function refuseCycles({ cycles }: CodeUpload, why: string): void {
  if (cycles === undefined) return;
  throw new ServerError(
    'invalid',
    'bad-form',
    `the part cycles is for actors that are new: ${why}; POST /cycles/<ACTOR> adds to it`,
  );
}

/** Returns the facts that the parameters of an installation or an upgrade give the actor. */
export function factsIn(query: ReadonlyMap<string, string>): Partial<GivenFacts> {
  const certificate = query.get('certificate');
  // Either takes the other's place, as in the manifest.
  return certificate === undefined
    ? {}
    : { hasCertificate: certificate === 'placeholder', isCertified: certificate === 'signed' };
}
