import { ByteReader, ByteWriter } from '../../subsystems/wasm/index.ts';

/** Copies a module, letting `change` replace the content of sections; undefined leaves a section out. */
export function mapSections(
  bytes: Uint8Array,
  change: (id: number, content: Uint8Array) => Uint8Array | undefined,
): Uint8Array {
  const out = new ByteWriter(bytes.length * 2);
  out.append(bytes.subarray(0, 8));
  const r = new ByteReader(bytes, 'module', 8);
  while (!r.isAtEnd) {
    const id = r.byte();
    const content = change(id, r.take(r.u32()));
    if (content === undefined) continue;
    out.byte(id);
    out.unsigned(content.length);
    out.append(content);
  }
  return out.written().slice();
}

/** Renames exports, so that modules made by ordinary toolchains become canisters: `sort` → `canister_update sort`. */
export function renameExports(bytes: Uint8Array, rename: (name: string) => string): Uint8Array {
  return mapSections(bytes, (id, content) => {
    if (id !== 7) return content;
    const r = new ByteReader(content, 'export section');
    const out = new ByteWriter();
    const count = r.u32();
    out.unsigned(count);
    for (let k = 0; k < count; k++) {
      const name = r.name();
      const kind = r.byte();
      out.name(kind === 0 ? rename(name) : name);
      out.byte(kind);
      out.unsigned(r.u32());
    }
    return out.written();
  });
}
