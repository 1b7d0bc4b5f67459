/**
 * Active segments that do not fit. Such a module is valid; what traps is its instantiation. Sizes and offsets are known
 * before, so instantiating itself never fails here: the host reports the trap instead.
 */
import { WASM_PAGE_BYTES } from '../ic/index.ts';
import type { DataSegment, ElementSegment, WasmModule } from './module.ts';

/** Messages of a trap at instantiation, with the first segment that does not fit. */
export interface SegmentTraps {
  /** Message for element segments: at each instantiation. */
  readonly elements?: string;
  /** Message for data segments: only where a heap is made anew. */
  readonly data?: string;
}

export function segmentTraps(module: WasmModule): SegmentTraps {
  const element = module.elements.findIndex((segment) => !elementsFit(module, segment));
  const data = module.data.findIndex((segment) => !dataFits(module, segment));
  return {
    ...(element < 0 ? {} : { elements: elementsTrap(module, element) }),
    ...(data < 0 ? {} : { data: dataTrap(module, data) }),
  };
}

export function elementsFit(module: WasmModule, segment: ElementSegment): boolean {
  if (segment.mode !== 'active') return true;
  return (segment.offset?.value ?? 0) + elementCount(segment) <= tableSize(module, segment);
}

export function dataFits(module: WasmModule, { offset, bytes }: DataSegment): boolean {
  return offset === undefined || (offset.value ?? 0) + bytes.length <= memoryBytes(module);
}

function elementsTrap(module: WasmModule, index: number): string {
  const segment = module.elements[index];
  if (segment === undefined) throw new RangeError(`no element segment ${index}`);
  const where = `${elementCount(segment)} elements at ${segment.offset?.value ?? 0} of a table of ${tableSize(module, segment)}`;
  return `table out of bounds: element segment ${index} puts ${where}`;
}

function dataTrap(module: WasmModule, index: number): string {
  const segment = module.data[index];
  if (segment === undefined) throw new RangeError(`no data segment ${index}`);
  const where = `${segment.bytes.length} bytes at ${segment.offset?.value ?? 0}, the memory begins with ${memoryBytes(module)}`;
  return `heap out of bounds: data segment ${index} puts ${where}`;
}

function elementCount({ functions, expressions }: ElementSegment): number {
  return functions?.length ?? expressions?.length ?? 0;
}

function tableSize(module: WasmModule, segment: ElementSegment): number {
  return module.tables[segment.table]?.minimum ?? 0;
}

function memoryBytes(module: WasmModule): number {
  return (module.memories[0]?.minimum ?? 0) * WASM_PAGE_BYTES;
}
