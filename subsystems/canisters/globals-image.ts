import { ServerError } from '../../kernel/index.ts';
import type { ModuleInfo } from '../execution/index.ts';
import type { GlobalValue } from '../management/index.ts';

const WORDS = { i32: 1, f32: 1, i64: 2, f64: 2, v128: 4 } as const;

/** A module's mutable globals as values, from the bytes that an executor keeps them in. */
export function readGlobals(module: ModuleInfo, image: Uint8Array): readonly GlobalValue[] {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  return module.globals.map(({ type, at }) => {
    let bits = 0n;
    for (let word = WORDS[type] - 1; word >= 0; word--)
      bits = (bits << 32n) | BigInt(view.getUint32(at + word * 4, true));
    return { type, bits };
  });
}

/** The other way. Throws ServerError `invalid` when number or types are not those of the module. */
export function writeGlobals(module: ModuleInfo, values: readonly GlobalValue[]): Uint8Array {
  if (values.length !== module.globals.length) {
    throw unfit(`the snapshot has ${values.length} globals, the module has ${module.globals.length}`);
  }
  const image = new Uint8Array(module.globalsBytes);
  const view = new DataView(image.buffer);
  for (const [index, { type, at }] of module.globals.entries()) {
    const value = values[index];
    if (value?.type !== type)
      throw unfit(`global ${index} is of type ${value?.type ?? 'none'}, in the module of ${type}`);
    for (let word = 0; word < WORDS[type]; word++) {
      view.setUint32(at + word * 4, Number((value.bits >> BigInt(word * 32)) & 0xffff_ffffn), true);
    }
  }
  return image;
}

function unfit(reason: string): ServerError {
  return new ServerError('invalid', 'globals-unfit', `the snapshot does not fit its module: ${reason}`);
}
