/** Capsules taken apart and put together again: for tests that change them with right check sums. */
import { inflateRawSync } from 'node:zlib';
import { fileHead, type SECTION, SectionWriter } from '../../subsystems/replay/capsule/capsule-format.ts';

type SectionKind = (typeof SECTION)[keyof typeof SECTION];

interface CapsuleSection {
  readonly kind: SectionKind;
  readonly bytes: Buffer;
}

const FILE_HEAD_BYTES = 12;
const SECTION_HEAD_BYTES = 13;

/** Returns the sections of a capsule as they stand there. */
export function rawSections(file: Buffer): Buffer[] {
  const sections: Buffer[] = [];
  for (let at = FILE_HEAD_BYTES; at < file.length; at += sections.at(-1)?.length ?? 0)
    sections.push(file.subarray(at, at + SECTION_HEAD_BYTES + file.readUInt32LE(at + 1)));
  return sections;
}

function unpacked(raw: Buffer): CapsuleSection {
  return { kind: raw.readUInt8() as SectionKind, bytes: inflateRawSync(raw.subarray(SECTION_HEAD_BYTES)) };
}

export function sectionsOf(file: Buffer): CapsuleSection[] {
  return rawSections(file).map(unpacked);
}

export async function capsuleOf(sections: readonly CapsuleSection[]): Promise<Buffer> {
  const writer = new SectionWriter();
  const parts: Buffer[] = [fileHead()];
  for (const { kind, bytes } of sections) parts.push(await writer.section(kind, bytes));
  return Buffer.concat(parts);
}

/** Resolves with the capsule with one section changed: the last of that kind. */
export async function changed(file: Buffer, kind: SectionKind, change: (bytes: Buffer) => Buffer): Promise<Buffer> {
  const place = rawSections(file).findLastIndex((each) => each[0] === kind);
  return await changedAt(file, place, change);
}

/** Resolves with the capsule with one section changed, by its number. */
export async function changedAt(file: Buffer, place: number, change: (bytes: Buffer) => Buffer): Promise<Buffer> {
  const raw = rawSections(file);
  const section = raw[place];
  if (section === undefined) throw new Error(`the capsule has no section ${place}`);
  const { kind, bytes } = unpacked(section);
  return Buffer.concat([fileHead(), ...raw.with(place, await new SectionWriter().section(kind, change(bytes)))]);
}
