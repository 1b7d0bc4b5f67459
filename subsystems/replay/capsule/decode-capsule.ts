/** Reads capsules, which may come from anybody: everything is checked before it is used (`capsule-format.ts`). */
import { createHash } from 'node:crypto';
import type { ServerError } from '../../../kernel/index.ts';
import { PAGE_BYTES } from '../../bytes/index.ts';
import type { PastPages } from '../../timeline/index.ts';
import { CAPSULE_MESSAGES_MAX } from '../index.ts';
import { badCapsule, SECTION, SectionReader } from './capsule-format.ts';
import { readPages } from './capsule-pages.ts';
import {
  type CapsuleEnd,
  type CapsuleHead,
  type CapsuleMessage,
  readEnd,
  readHead,
  readMessage,
} from './capsule-texts.ts';

type Memories = Readonly<Record<'heap' | 'stable', PastPages>>;

/** A message with its pages. */
export interface CapsulePart extends CapsuleMessage {
  /** Pages that it found otherwise than the message before it had left them. */
  readonly found: Memories;
  readonly changed: Memories;
}

export interface Capsule {
  readonly head: CapsuleHead;
  readonly end: CapsuleEnd;
  /** In order, at least one from `head.from` on. */
  readonly parts: readonly CapsulePart[];
  /** Modules as they were uploaded, by SHA-256 in hex. */
  readonly modules: ReadonlyMap<string, Uint8Array>;
}

/** Messages of a file: those that were asked for, and as many that came along; each may take a minute. */
const MESSAGES_MAX = 2 * CAPSULE_MESSAGES_MAX;
const MODULES_MAX = 1_000;

/** Resolves with a capsule. Rejects with ServerError `capsule-bad`, which says where it is wrong and why. */
export async function decodeCapsule(file: Buffer): Promise<Capsule> {
  const reader = new SectionReader(file);
  const first = await reader.next(SECTION.head);
  const head = readHead(first.bytes, refusing(first.at));
  const modules = new Map<string, Uint8Array>();
  const parts: CapsulePart[] = [];
  for (;;) {
    const section = await reader.next(SECTION.module, SECTION.message, SECTION.end);
    const { at, bytes } = section;
    if (section.kind === SECTION.end) {
      const end = readEnd(bytes, refusing(at));
      if (!reader.isAtEnd) throw badCapsule(reader.at, 'something stands behind the end');
      if (end.messages !== parts.length)
        throw badCapsule(at, `there are ${parts.length} messages, and there were ${end.messages}`);
      if (!parts.some(({ entry }) => entry.seq >= head.from)) throw badCapsule(at, `seq:${head.from} is not in it`);
      return { head, end, parts, modules };
    }
    if (section.kind === SECTION.module) {
      if (modules.size >= MODULES_MAX) throw badCapsule(at, `it has more than ${MODULES_MAX} modules`);
      modules.set(createHash('sha256').update(bytes).digest('hex'), bytes);
      continue;
    }
    if (parts.length >= MESSAGES_MAX) throw badCapsule(at, `it has more than ${MESSAGES_MAX} messages`);
    const part = await readPart(reader, readMessage(bytes, refusing(at)));
    checkPart(part, parts.at(-1), modules, at);
    parts.push(part);
  }
}

function refusing(at: number): (reason: string) => ServerError {
  return (reason) => badCapsule(at, reason);
}

async function readPart(reader: SectionReader, read: ReturnType<typeof readMessage>): Promise<CapsulePart> {
  const message = read((await reader.next(SECTION.argument)).bytes);
  const { before, after } = message;
  return {
    ...message,
    found: {
      heap: await pagesIn(reader, SECTION.heapBefore, before.heapBytes),
      stable: await pagesIn(reader, SECTION.stableBefore, before.stableBytes),
    },
    changed: {
      heap: await pagesIn(reader, SECTION.heapBehind, after.heapBytes),
      stable: await pagesIn(reader, SECTION.stableBehind, after.stableBytes),
    },
  };
}

type PageSection = (typeof SECTION)['heapBefore' | 'stableBefore' | 'heapBehind' | 'stableBehind'];

/** Resolves with the pages of all sections of that kind that follow. */
async function pagesIn(reader: SectionReader, kind: PageSection, memoryBytes: number): Promise<PastPages> {
  const parts: PastPages[] = [];
  for (let last = -1; reader.isNext(kind);) {
    const { at, bytes } = await reader.next(kind);
    const part = readPages(bytes, memoryBytes, refusing(at));
    const [first = Infinity] = part.numbers;
    if (first <= last) throw badCapsule(at, `page ${first} stands behind page ${last}`);
    last = part.numbers.at(-1) ?? last;
    parts.push(part);
  }
  const [only] = parts;
  if (only !== undefined && parts.length === 1) return only;
  const bytes = Buffer.alloc(parts.reduce((sum, part) => sum + part.bytes.length, 0));
  const numbers = new Uint32Array(bytes.length / PAGE_BYTES);
  let count = 0;
  for (const part of parts) {
    numbers.set(part.numbers, count);
    bytes.set(part.bytes, count * PAGE_BYTES);
    count += part.numbers.length;
  }
  return { numbers, bytes };
}

/** Throws for a message that does not fit what stands before it. */
function checkPart(
  { entry, before, after }: CapsulePart,
  last: CapsulePart | undefined,
  modules: ReadonlyMap<string, Uint8Array>,
  at: number,
): void {
  if (last !== undefined && entry.seq <= last.entry.seq)
    throw badCapsule(at, `seq:${entry.seq} stands behind seq:${last.entry.seq}`);
  const { kind } = entry.note;
  const hasCode = (kind === 'install' || kind === 'reinstall' ? after : before).moduleHash !== undefined;
  if (!hasCode && kind !== 'restore' && kind !== 'fork')
    throw badCapsule(at, `seq:${entry.seq} is of the kind ${kind}, and there is no code that executes it`);
  for (const { moduleHash } of [before, after])
    if (moduleHash !== undefined && !modules.has(moduleHash))
      throw badCapsule(at, `the module ${moduleHash} of seq:${entry.seq} is not before it`);
}
