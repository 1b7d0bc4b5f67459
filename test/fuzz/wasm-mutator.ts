/**
 * Changes of modules: from single bits to whole sections. Half of them repair the lengths around the place, so that the
 * damage is found in its place and not at the next section's header; some change an instruction into another of the
 * same shape, so that most results are valid and different.
 */
import { ByteReader, ByteWriter, POPS, PUSHES } from '../../subsystems/wasm/index.ts';
import { IMMEDIATE, IMMEDIATES } from '../../subsystems/wasm/opcodes.ts';
import type { Seeded } from '../support/seeded.ts';
import { leb } from '../support/module-builder.ts';

interface Section {
  readonly id: number;
  readonly content: Uint8Array;
}

const CODE = 10;
const HEADER_BYTES = 8;
/** Bytes with a meaning in many places: ends, opcodes, types, signs, continuation bits. */
const TELLING = [
  0, 1, 2, 3, 4, 5, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x40, 0x41, 0x42, 0x60, 0x63, 0x64, 0x6e, 0x6f,
  0x70, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0xfc, 0xfd, 0xff,
] as const;

/** Makes one to four changes of `whole`; foreign parts come from `other`. */
export function mutate(whole: Uint8Array, other: Uint8Array, random: Seeded): Uint8Array {
  let bytes = whole;
  for (let k = random.pick([1, 1, 1, 2, 3, 4]); k > 0; k--) bytes = mutateOnce(bytes, other, random);
  return bytes;
}

function mutateOnce(bytes: Uint8Array, other: Uint8Array, random: Seeded): Uint8Array {
  const sections = sectionsOf(bytes);
  if (sections === undefined || sections.length === 0) return mutateBytes(bytes, other, random);
  switch (random.below(10)) {
    case 0:
      return mutateBytes(bytes, other, random);
    case 1:
      return joined(mutateOrder(sections, sectionsOf(other) ?? [], random));
    case 2:
    case 3: {
      const place = random.below(sections.length);
      return joined(
        sections.map(({ id, content }, k) =>
          k === place ? { id, content: mutateBytes(content, other, random) } : { id, content },
        ),
      );
    }
    default:
      return joined(
        sections.map((section) =>
          section.id === CODE ? { id: CODE, content: mutateCode(section.content, other, random) } : section,
        ),
      );
  }
}

/** Changes bytes without regard to their meaning. */
function mutateBytes(bytes: Uint8Array, other: Uint8Array, random: Seeded): Uint8Array {
  if (bytes.length === 0) return Uint8Array.of(random.below(256));
  const at = random.below(bytes.length);
  const length = 1 + random.below(random.oneIn(4) ? 64 : 4);
  switch (random.below(8)) {
    case 0:
      return spliced(bytes, at, 1, [(bytes[at] ?? 0) ^ (1 << random.below(8))]);
    case 1:
    case 2:
      return spliced(bytes, at, 1, [random.oneIn(2) ? random.below(256) : random.pick(TELLING)]);
    case 3:
      return spliced(
        bytes,
        at,
        0,
        Array.from({ length }, () => random.pick(TELLING)),
      );
    case 4:
      return spliced(bytes, at, length, []);
    case 5: {
      const from = random.below(Math.max(1, other.length));
      return spliced(bytes, at, random.oneIn(2) ? length : 0, other.subarray(from, from + length));
    }
    case 6:
      return random.oneIn(4) ? bytes.subarray(0, at) : spliced(bytes, at, 1, leb(bytes[at] ?? 0, 1 + random.below(11)));
    default:
      return spliced(
        bytes,
        at,
        1,
        leb(random.pick([127, 128, 999, 1000, 49_999, 50_000, 65_535, 65_536, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53])),
      );
  }
}

function mutateOrder(sections: readonly Section[], foreign: readonly Section[], random: Seeded): Section[] {
  const list = [...sections];
  const at = random.below(list.length);
  const one = list[at];
  if (one === undefined) return list;
  switch (random.below(4)) {
    case 0:
      list.splice(at, 1);
      break;
    case 1:
      list.splice(random.below(list.length), 0, one);
      break;
    case 2:
      list.splice(at, 1);
      list.splice(random.below(list.length + 1), 0, one);
      break;
    default: {
      const stranger = foreign.find(({ id }) => id === one.id) ?? foreign[random.below(Math.max(1, foreign.length))];
      if (stranger !== undefined) list[at] = stranger;
    }
  }
  return list;
}

/** Changes one body, and corrects its length and the section's. */
function mutateCode(content: Uint8Array, other: Uint8Array, random: Seeded): Uint8Array {
  const bodies: Uint8Array[] = [];
  try {
    const r = new ByteReader(content, 'code');
    for (let count = r.u32(); count > 0; count--) bodies.push(r.take(r.u32()));
  } catch {
    return mutateBytes(content, other, random);
  }
  const place = random.below(Math.max(1, bodies.length));
  const body = bodies[place];
  if (body === undefined) return content;
  bodies[place] = random.below(3) === 0 ? mutateBytes(body, other, random) : swapInstruction(body, random);
  const out = new ByteWriter(content.length + 64);
  out.unsigned(bodies.length);
  for (const each of bodies) {
    out.unsigned(each.length);
    out.append(each);
  }
  return out.written().slice();
}

/** Opcodes of one byte with the same shape: same immediates, same number of operands and results. */
const ALIKE: readonly (readonly number[])[] = Array.from({ length: 256 }, (_, opcode) =>
  Array.from({ length: 0xfb }, (__, k) => k).filter(
    (k) =>
      IMMEDIATES[k] !== IMMEDIATE.REFUSED &&
      IMMEDIATES[k] === IMMEDIATES[opcode] &&
      POPS[k] === POPS[opcode] &&
      PUSHES[k] === PUSHES[opcode],
  ),
);

/** Makes a block of a type of the garbage collection proposal, which V8 knows, without any running code. */
function foreignBlock(random: Seeded): number[] {
  const type = random.pick([[0x63, random.below(0x40)], [0x64, random.below(0x40)], [0x63, 0x70], [0x6e], [0x71]]);
  return [random.pick([0x02, 0x03]), ...type, 0x00, 0x0b, 0x1a];
}

function swapInstruction(body: Uint8Array, random: Seeded): Uint8Array {
  // The place is behind the locals, of which most bodies have few; anywhere else it is ordinary damage.
  if (random.oneIn(20)) {
    const at = random.pick([1, 3, body.length - 1]);
    return spliced(body, Math.max(0, Math.min(at, body.length)), 0, foreignBlock(random));
  }
  for (let tries = 0; tries < 20; tries++) {
    const at = random.below(Math.max(1, body.length));
    const alike = ALIKE[body[at] ?? 0] ?? [];
    if (alike.length > 1) return spliced(body, at, 1, [alike[random.below(alike.length)] ?? 0]);
  }
  return spliced(body, random.below(Math.max(1, body.length)), 0, [0x01]);
}

function spliced(bytes: Uint8Array, at: number, removed: number, added: ArrayLike<number>): Uint8Array {
  const from = Math.min(bytes.length, at + removed);
  const out = new Uint8Array(at + added.length + bytes.length - from);
  out.set(bytes.subarray(0, at));
  out.set(added, at);
  out.set(bytes.subarray(from), at + added.length);
  return out;
}

function sectionsOf(bytes: Uint8Array): Section[] | undefined {
  try {
    const r = new ByteReader(bytes, 'module', HEADER_BYTES);
    const sections: Section[] = [];
    while (!r.isAtEnd) {
      const id = r.byte();
      sections.push({ id, content: r.take(r.u32()) });
    }
    return sections;
  } catch {
    return undefined;
  }
}

function joined(sections: readonly Section[]): Uint8Array {
  const out = new ByteWriter(1024);
  out.put([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]);
  for (const { id, content } of sections) {
    out.byte(id);
    out.unsigned(content.length);
    out.append(content);
  }
  return out.written().slice();
}
