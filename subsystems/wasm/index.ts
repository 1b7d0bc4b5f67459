/** The binary format: bytes in, a module out; no state. */
export { ByteReader, ByteWriter, signedLeb } from './bytes.ts';
export { NESTING_MAX } from './complexity.ts';
export { decodeModule } from './decode.ts';
export { IC0_SIGNATURES, ic0Signature } from './ic0-signatures.ts';
export type { HostType, Ic0Name, Ic0Signature } from './ic0-signatures.ts';
export { BLOCK_TYPE_EMPTY, decodeBody, InstructionBuffer } from './instructions.ts';
export { typeOfFunction, VALUE_TYPE } from './module.ts';
export type { ConstantExpression, ElementSegment, FunctionType, Global, ValueType, WasmModule } from './module.ts';
export { MISC, OP, OPCODE_COUNT, opcodeName, POPS, PUSHES, SIMD, STORE_BYTES } from './opcodes.ts';
export { describeFunction, namesInSection } from './names.ts';
export { hex, refusal } from './refusal.ts';
export { dataFits, elementsFit, segmentTraps } from './segment-bounds.ts';
export type { SegmentTraps } from './segment-bounds.ts';
export { validateCanister } from './validate.ts';
