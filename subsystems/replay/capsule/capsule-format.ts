/**
 * Capsules in bytes: messages of an actor, with all that a replay of them needs, in a file for other machines.
 *
 *     8 bytes `svc-caps` · u32 version · sections
 *     section: u8 kind · u32 bytes as packed · u32 bytes · u32 CRC-32 of what is before and behind it · packed bytes
 *
 * Numbers are little-endian; packed: raw deflate. One head is first and one end is last. Between them stand the
 * messages in order: each module that none before it has had, the message, its argument, and in any number of sections
 * the pages (`capsule-pages.ts`) that the message found otherwise than the one before had left them, those of the heap,
 * then of the stable memory, and those that it changed itself.
 *
 * Whoever reads a capsule has it from somebody: nothing of it is believed before it is checked.
 */
import { promisify } from 'node:util';
import { crc32, deflateRaw, inflateRaw } from 'node:zlib';
import { messageOf, ServerError } from '../../../kernel/index.ts';

export const SECTION = {
  head: 1,
  module: 2,
  message: 3,
  argument: 4,
  heapBefore: 5,
  stableBefore: 6,
  heapBehind: 7,
  stableBehind: 8,
  end: 9,
} as const;
type SectionKind = (typeof SECTION)[keyof typeof SECTION];

interface Section {
  readonly kind: SectionKind;
  /** Place of the section in the file. */
  readonly at: number;
  /** Unpacked. */
  readonly bytes: Buffer;
}

const MAGIC = Buffer.from('svc-caps');
const VERSION = 1;
const FILE_HEAD_BYTES = MAGIC.length + 4;
const SECTION_HEAD_BYTES = 13;
const CRC_AT = 9;
/** Bytes that a capsule has unpacked: a timeline keeps states of 256 MiB, unless it is told to have more. */
export const CAPSULE_BYTES_MAX = 512 * 2 ** 20;
/** Bytes of the file: what cannot be packed gets a little longer. */
export const CAPSULE_FILE_BYTES_MAX = CAPSULE_BYTES_MAX + 2 ** 20;
/** Bytes of a head, a message or an end: an actor's interface and its variables have some megabytes at most. */
const TEXT_BYTES_MAX = 8 * 2 ** 20;

const NAMES: ReadonlyMap<number, string> = new Map(Object.entries(SECTION).map(([name, kind]) => [kind, name]));
const TEXTS: ReadonlySet<number> = new Set([SECTION.head, SECTION.message, SECTION.end]);
const [pack, unpack] = [promisify(deflateRaw), promisify(inflateRaw)];

/** Returns the error for a file that is no capsule, or none that can be read. `at`: the place of what is wrong. */
export function badCapsule(at: number, reason: string): ServerError {
  return new ServerError('invalid', 'capsule-bad', `at byte ${at}: ${reason}`);
}

/** Returns the begin of a capsule. */
export function fileHead(): Buffer {
  const bytes = Buffer.alloc(FILE_HEAD_BYTES);
  MAGIC.copy(bytes);
  bytes.writeUInt32LE(VERSION, MAGIC.length);
  return bytes;
}

/** Makes sections, up to CAPSULE_BYTES_MAX. */
export class SectionWriter {
  #bytes = 0;

  /** True if there is room for so many bytes more. */
  hasRoom(bytes: number): boolean {
    return this.#bytes + bytes <= CAPSULE_BYTES_MAX;
  }

  /** Resolves with a section. Rejects with ServerError `capsule-large`. */
  async section(kind: SectionKind, bytes: Uint8Array): Promise<Buffer> {
    if (!this.hasRoom(bytes.length)) throw tooLarge();
    this.#bytes += bytes.length;
    const packed = await pack(bytes);
    const head = Buffer.alloc(SECTION_HEAD_BYTES);
    head.writeUInt8(kind);
    head.writeUInt32LE(packed.length, 1);
    head.writeUInt32LE(bytes.length, 5);
    head.writeUInt32LE(crc32(packed, crc32(head.subarray(0, CRC_AT))), CRC_AT);
    return Buffer.concat([head, packed]);
  }
}

/** Returns the error for messages whose states have too many bytes for a capsule. */
export function tooLarge(): ServerError {
  const text = `a capsule has at most ${CAPSULE_BYTES_MAX} bytes, and these states have more`;
  return new ServerError('invalid', 'capsule-large', text);
}

/** Reads sections one behind the other. All methods throw ServerError `capsule-bad`. */
export class SectionReader {
  readonly #file: Buffer;
  #at = FILE_HEAD_BYTES;
  #bytes = 0;

  /** Throws for a file that does not begin as a capsule of this version does. */
  constructor(file: Buffer) {
    this.#file = file;
    if (!file.subarray(0, MAGIC.length).equals(MAGIC)) throw badCapsule(0, 'this is no capsule of svc');
    if (file.length < FILE_HEAD_BYTES) throw badCapsule(file.length, 'the file ends in its head');
    const version = file.readUInt32LE(MAGIC.length);
    if (version !== VERSION)
      throw badCapsule(MAGIC.length, `it is of version ${version}, and this svc reads version ${VERSION}`);
  }

  /** Place of the next section. */
  get at(): number {
    return this.#at;
  }

  /** True if nothing follows. */
  get isAtEnd(): boolean {
    return this.#at === this.#file.length;
  }

  /** True if a section of that kind follows. */
  isNext(kind: SectionKind): boolean {
    return this.#file[this.#at] === kind;
  }

  /** Resolves with the next section, which has to be of one of these kinds. */
  async next(...kinds: readonly SectionKind[]): Promise<Section> {
    const [file, at] = [this.#file, this.#at];
    const wanted = kinds.map((kind) => NAMES.get(kind)).join(' or ');
    if (at + SECTION_HEAD_BYTES > file.length) throw badCapsule(file.length, `the file ends before ${wanted}`);
    const begin = at + SECTION_HEAD_BYTES;
    const end = begin + file.readUInt32LE(at + 1);
    const length = file.readUInt32LE(at + 5);
    const found = NAMES.get(file[at] ?? 0);
    const kind = kinds.find((each) => each === file[at]);
    if (found === undefined || kind === undefined)
      throw badCapsule(at, `${found ?? `a section of the kind ${file[at]}`} stands there, and ${wanted} is expected`);
    if (end > file.length)
      throw badCapsule(at, `${found} has ${end - begin} bytes, and the file ends behind ${file.length - begin}`);
    if (length > (TEXTS.has(kind) ? TEXT_BYTES_MAX : CAPSULE_BYTES_MAX))
      throw badCapsule(at, `${found} has ${length} bytes unpacked, which is too many`);
    this.#bytes += length;
    if (this.#bytes > CAPSULE_BYTES_MAX)
      throw badCapsule(at, `the capsule has more than ${CAPSULE_BYTES_MAX} bytes unpacked`);
    const packed = file.subarray(begin, end);
    if (crc32(packed, crc32(file.subarray(at, at + CRC_AT))) !== file.readUInt32LE(at + CRC_AT))
      throw badCapsule(at, `the check sum of ${found} is wrong: the file is damaged`);
    this.#at = end;
    return { kind, at, bytes: await unpacked(packed, length, at) };
  }
}

async function unpacked(packed: Buffer, length: number, at: number): Promise<Buffer> {
  try {
    // More than it says is not unpacked at all.
    const bytes = await unpack(packed, { maxOutputLength: Math.max(1, length) });
    if (bytes.length === length) return bytes;
    throw badCapsule(at, `it says that it has ${length} bytes unpacked, and has ${bytes.length}`);
  } catch (error) {
    if (error instanceof ServerError) throw error;
    throw badCapsule(at, `it cannot be unpacked to ${length} bytes: ${messageOf(error)}`);
  }
}
