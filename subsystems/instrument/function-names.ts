/**
 * Names of the module's own functions, for stacks of traps: V8 tells them with each frame. A function of the
 * instrumenter has none, so that its frames can be left out.
 */
import { ByteWriter, namesInSection, type WasmModule } from '../wasm/index.ts';

const FUNCTION_NAMES = 1;
const NAME_CHARACTERS_MAX = 120;
/** A name is shown in one line of text, also in XML, which no noncharacter may be in. */
const UNSHOWN = /[\p{C}\p{Zl}\p{Zp}\ufffd]/gu;

/**
 * Returns the content of the name section: of each function what the module's name section says, else its export, else
 * `function 12`. A module that was validated names few bytes of them.
 */
export function functionNames(module: WasmModule, callable: (functionIndex: number) => number): Uint8Array {
  const names = new Map(
    module.exports.flatMap(({ kind, index, name }) => (kind === 'function' ? [[index, name]] : [])),
  );
  for (const [index, name] of namesInSection(module)) if (name !== '') names.set(index, name);
  const entries = new ByteWriter(1 << 14);
  entries.unsigned(module.bodyStart.length);
  for (let index = module.importedFunctionCount; index < module.functionTypes.length; index++) {
    const name = names.get(index);
    entries.unsigned(callable(index));
    entries.name(name === undefined ? `function ${index}` : shown(name));
  }
  const out = new ByteWriter(entries.length + 16);
  out.name('name');
  out.byte(FUNCTION_NAMES);
  out.unsigned(entries.length);
  out.append(entries.written());
  return out.written();
}

function shown(name: string): string {
  const cut = name.length > NAME_CHARACTERS_MAX ? `${name.slice(0, NAME_CHARACTERS_MAX)}…` : name;
  return cut.replaceAll(UNSHOWN, '?');
}
