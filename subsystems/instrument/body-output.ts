/** The body that is being written: its bytes, its locals, and the places of its unlikely branches. */
import { ByteWriter, type InstructionBuffer, OP, type ValueType } from '../wasm/index.ts';
import { THREADED_PARAMS } from './function-types.ts';

/** Place to which the output can return. */
export interface OutputMark {
  readonly length: number;
  readonly hints: number;
}

export class BodyOutput {
  readonly bytes = new ByteWriter(1 << 16);
  /** Places of unlikely branches in `bytes`. */
  readonly hints: number[] = [];
  /** Locals of the remaining stack and of the fuel. */
  stack = 0;
  fuel = 0;
  #params = 0;
  #nextLocal = 0;
  /** Temporaries in use, by purpose; declared only when used, because V8's baseline compiler clears each at entry. */
  readonly #temporaries = new Map<string, number>();
  readonly #temporaryTypes: ValueType[] = [];

  begin(params: number, localCount: number): void {
    this.#params = params;
    this.stack = params;
    this.fuel = params + 1;
    this.#nextLocal = localCount + THREADED_PARAMS.length;
    this.#temporaries.clear();
    this.#temporaryTypes.length = 0;
    this.bytes.length = 0;
    this.hints.length = 0;
  }

  /** Returns the declarations of the locals, which stand before the instructions. */
  head(buffer: InstructionBuffer): ByteWriter {
    const head = new ByteWriter(64);
    head.unsigned(buffer.localGroups.length / 2 + this.#temporaryTypes.length);
    for (const number of buffer.localGroups) head.unsigned(number);
    for (const type of this.#temporaryTypes) head.put([1, type]);
    return head;
  }

  mark(): OutputMark {
    return { length: this.bytes.length, hints: this.hints.length };
  }

  goBack({ length, hints }: OutputMark): void {
    this.bytes.length = length;
    this.hints.length = hints;
  }

  /** Inserts code, with the places of its own unlikely branches, at an earlier place. */
  insert(start: number, inserted: ByteWriter, insertedHints: readonly number[]): void {
    const { length } = inserted;
    const { bytes, hints } = this;
    bytes.reserve(length);
    bytes.bytes.copyWithin(start + length, start, bytes.length);
    bytes.bytes.set(inserted.written(), start);
    bytes.length += length;
    let first = hints.length;
    while (first > 0 && (hints[first - 1] ?? 0) >= start) first--;
    const behind = hints.splice(first);
    for (const hint of insertedHints) hints.push(start + hint);
    for (const hint of behind) hints.push(hint + length);
  }

  unlikelyIf(): void {
    this.hints.push(this.bytes.length);
    this.bytes.byte(OP.IF);
    this.bytes.byte(0x40);
  }

  /** Returns the place of the module's local, which is shifted by our parameters unless it is a parameter. */
  local(local: number): number {
    return local < this.#params ? local : local + THREADED_PARAMS.length;
  }

  temporary(purpose: string, type: ValueType): number {
    const key = purpose + type;
    const known = this.#temporaries.get(key);
    if (known !== undefined) return known;
    this.#temporaries.set(key, this.#nextLocal);
    this.#temporaryTypes.push(type);
    return this.#nextLocal++;
  }

  get(local: number): void {
    this.bytes.byte(OP.LOCAL_GET);
    this.bytes.unsigned(local);
  }
  set(local: number): void {
    this.bytes.byte(OP.LOCAL_SET);
    this.bytes.unsigned(local);
  }
  tee(local: number): void {
    this.bytes.byte(OP.LOCAL_TEE);
    this.bytes.unsigned(local);
  }
  call(functionIndex: number): void {
    this.bytes.byte(OP.CALL);
    this.bytes.unsigned(functionIndex);
  }
}
