import { ByteWriter } from './byte-writer.ts';
import { badCandid, quotaExceeded } from './faults.ts';
import type { CandidReader } from './candid-reader.ts';
import { CandidType, idToLabel, Op, type CandidField, type FuncAnnotation, type TypeGraph } from './types.ts';

/*
 * The head of a Candid message: magic, type table, types of the arguments.
 *
 * Reading a head is the first step with hostile bytes, so everything is limited before memory is used for it: the
 * number of entries, of fields in total, and the length of names. Entries may refer to later ones and to themselves; so
 * nodes are made first and filled during reading.
 */

/** Entries of one type table. Interfaces of real services have hundreds. */
const TABLE_ENTRIES_MAX = 10_000;
/** Fields, parameters, results and methods of one type table together, and arguments of one message. */
const TABLE_PARTS_MAX = 100_000;

const MAGIC = [0x44, 0x49, 0x44, 0x4c];

function isComposite(op: Op): boolean {
  return op <= Op.OPT && op >= Op.SERVICE;
}

/** Returns the composite types that a tuple consists of, each once. */
function reachableComposites(roots: readonly CandidType[]): CandidType[] {
  const met = new Set<CandidType>();
  const demand = (type: CandidType): void => {
    if (isComposite(type.op)) met.add(type);
  };
  roots.forEach(demand);
  // A set is visited in order of insertion, including members added during the loop.
  for (const type of met) {
    if (type.element !== undefined) demand(type.element);
    for (const field of type.fields) demand(field.type);
    type.parameters.forEach(demand);
    type.results.forEach(demand);
    for (const method of type.methods) demand(method.type);
  }
  return [...met];
}

/** Encodes the head of messages whose values have the types `graph.roots`. */
export function encodeHeader(graph: TypeGraph): Uint8Array {
  const writer = new ByteWriter();
  writer.start(TABLE_ENTRIES_MAX * 1_024);
  const composite = reachableComposites(graph.roots);
  const entryOf = new Map(composite.map((node, entry) => [node, entry]));
  const reference = (type: CandidType): void => writer.writeSleb(entryOf.get(type) ?? type.op);
  writer.writeAll(Uint8Array.from(MAGIC));
  writer.writeLeb(composite.length);
  for (const node of composite) {
    writer.writeSleb(node.op);
    switch (node.op) {
      case Op.RECORD:
      case Op.VARIANT:
        writer.writeLeb(node.fields.length);
        for (const field of node.fields) {
          writer.writeLeb(field.id);
          reference(field.type);
        }
        break;
      case Op.FUNC:
        for (const types of [node.parameters, node.results]) {
          writer.writeLeb(types.length);
          for (const type of types) reference(type);
        }
        writer.writeLeb(node.annotations.length);
        for (const annotation of node.annotations) writer.writeByte(annotation);
        break;
      case Op.SERVICE: {
        writer.writeLeb(node.methods.length);
        const methods = node.methods.map(({ name, type }) => ({ bytes: Buffer.from(name, 'utf8'), type }));
        for (const { bytes, type } of methods.sort((left, right) => left.bytes.compare(right.bytes))) {
          writer.writeLeb(bytes.length);
          writer.writeAll(bytes);
          reference(type);
        }
        break;
      }
      default:
        reference(node.inner);
    }
  }
  writer.writeLeb(graph.roots.length);
  for (const root of graph.roots) reference(root);
  return writer.finish();
}

/** Reads the head of a message; the reader is then at the first value. */
export function decodeHeader(reader: CandidReader): TypeGraph {
  for (const byte of MAGIC) {
    if (reader.position >= reader.end || reader.bytes[reader.position] !== byte) {
      throw badCandid(
        'message',
        reader.end === 0 ? 'it is empty; no arguments are the bytes 4449444c0000' : 'it does not begin with DIDL',
      );
    }
    reader.position++;
  }
  const count = reader.readLength('type table');
  if (count > TABLE_ENTRIES_MAX)
    throw quotaExceeded('type table', `it has ${count} entries; at most ${TABLE_ENTRIES_MAX} are accepted`);
  const table = new TableReader(reader);
  table.readEntries(count);
  const roots = table.readTypes('arguments');
  table.checkMethods();
  return { roots, nodes: table.nodes };
}

class TableReader {
  readonly nodes: CandidType[] = [];
  readonly #reader: CandidReader;
  readonly #primitives = new Map<number, CandidType>();
  readonly #entries: CandidType[] = [];
  #parts = 0;
  readonly #pendingReferences: (() => void)[] = [];

  constructor(reader: CandidReader) {
    this.#reader = reader;
  }

  #count(what: string): number {
    const count = this.#reader.readLength(what);
    this.#parts += count;
    if (this.#parts > TABLE_PARTS_MAX)
      throw quotaExceeded('type table', `it has more than ${TABLE_PARTS_MAX} fields and methods`);
    if (count > this.#reader.end - this.#reader.position) throw badCandid('type table', 'the message ends within it');
    return count;
  }

  #node(op: Op): CandidType {
    const node = new CandidType(op, this.nodes.length);
    this.nodes.push(node);
    return node;
  }

  /** Reads a type reference, and passes the type to `use` once all entries are known. */
  #reference(entryCount: number, use: (type: CandidType) => void): void {
    const reference = this.#reader.readSleb('type table');
    if (reference >= entryCount) throw badCandid('type table', `a type refers to entry ${reference} of ${entryCount}`);
    if (reference >= 0) {
      const known = this.#entries[reference];
      if (known !== undefined) use(known);
      else this.#pendingReferences.push(() => use(this.#entries[reference] ?? this.#primitive(Op.EMPTY)));
    } else {
      use(this.#primitive(reference));
    }
  }

  #primitive(op: number): CandidType {
    const known = this.#primitives.get(op);
    if (known !== undefined) return known;
    if ((op < Op.EMPTY && op !== Op.PRINCIPAL) || op < Op.PRINCIPAL)
      throw badCandid('type table', `${op} is not a primitive type`);
    // Every code from −1 to −17, and −24, is one of `Op`.
    const node = this.#node(op as Op);
    this.#primitives.set(op, node);
    return node;
  }

  readEntries(count: number): void {
    const reader = this.#reader;
    if (count * 2 > reader.end - reader.position) throw badCandid('type table', 'the message ends within it');
    for (let entry = 0; entry < count; entry++) {
      const op = reader.readSleb('type table');
      if (op < Op.PRINCIPAL) {
        const length = reader.readLength('type table');
        if (length > reader.end - reader.position) throw badCandid('type table', 'the message ends within it');
        reader.position += length;
        this.#entries.push(this.#node(Op.FUTURE));
        continue;
      }
      if (!isComposite(op as Op))
        throw badCandid('type table', `entry ${entry} is ${op}, which is not a composite type`);
      const node = this.#node(op as Op);
      this.#entries.push(node);
      this.#fill(node, count);
    }
    for (const use of this.#pendingReferences) use();
  }

  #fill(node: CandidType, entryCount: number): void {
    switch (node.op) {
      case Op.RECORD:
      case Op.VARIANT:
        node.fields = this.#readFields(entryCount);
        break;
      case Op.FUNC:
        node.parameters = this.#readReferences(entryCount, 'parameters');
        node.results = this.#readReferences(entryCount, 'results');
        node.annotations = this.#readAnnotations();
        break;
      case Op.SERVICE:
        node.methods = this.#readMethods(entryCount);
        break;
      default:
        this.#reference(entryCount, (type) => {
          node.element = type;
        });
    }
  }

  #readFields(entryCount: number): CandidField[] {
    const count = this.#count('fields');
    const fields: CandidField[] = [];
    let last = -1;
    for (let index = 0; index < count; index++) {
      const id = this.#reader.readLength('field id');
      if (id > 0xffff_ffff) throw badCandid('type table', `field id ${id} is not below 2^32`);
      if (id <= last) throw badCandid('type table', 'field ids must increase');
      last = id;
      this.#reference(entryCount, (type) => {
        fields[index] = { id, label: idToLabel(id), type };
      });
    }
    return fields;
  }

  #readReferences(entryCount: number, what: string): CandidType[] {
    const count = this.#count(what);
    const types: CandidType[] = [];
    for (let index = 0; index < count; index++) {
      this.#reference(entryCount, (type) => {
        types[index] = type;
      });
    }
    return types;
  }

  #readAnnotations(): FuncAnnotation[] {
    const count = this.#count('annotations');
    const annotations: FuncAnnotation[] = [];
    for (let index = 0; index < count; index++) {
      const annotation = this.#reader.readByte('annotation');
      if (annotation !== 1 && annotation !== 2 && annotation !== 3)
        throw badCandid('type table', `unknown annotation ${annotation}`);
      annotations.push(annotation);
    }
    return annotations;
  }

  #readMethods(entryCount: number): { name: string; type: CandidType }[] {
    const count = this.#count('methods');
    const methods: { name: string; type: CandidType }[] = [];
    let previous: Buffer | undefined;
    for (let index = 0; index < count; index++) {
      const name = this.#reader.readText('method name');
      const bytes = Buffer.from(name, 'utf8');
      if (previous !== undefined && previous.compare(bytes) >= 0)
        throw badCandid('type table', 'method names must increase');
      previous = bytes;
      this.#reference(entryCount, (type) => {
        methods[index] = { name, type };
      });
    }
    return methods;
  }

  /** Reads the types of the arguments, after all entries are known. */
  readTypes(what: string): CandidType[] {
    return this.#readReferences(this.#entries.length, what);
  }

  /** Checks that methods of services are functions. */
  checkMethods(): void {
    for (const node of this.nodes) {
      for (const { name, type } of node.methods) {
        if (type.op !== Op.FUNC && type.op !== Op.FUTURE) {
          throw badCandid('type table', `method ${JSON.stringify(name.slice(0, 40))} is not a function`);
        }
      }
    }
  }
}
