/** Reads what a module says of its own interface, in the browser: custom sections of WebAssembly, raw or gzip. */

/** Texts that a module carries; undefined where it has none. */
export interface ModuleInterface {
  readonly service: string | undefined;
  /** Types of the arguments of `init` as a Candid tuple: `(nat, text)`. */
  readonly initTypes: string | undefined;
}

/** Bytes of an unpacked module that are looked at: more are not taken by the server. */
const MODULE_BYTES_MAX = 512 * 1024 * 1024;
const MAGIC = [0, 0x61, 0x73, 0x6d];
const HEADER_BYTES = 8;

/** Returns the sections' texts. Throws an Error with the reason if the file is no module. */
export async function moduleInterface(file: Blob): Promise<ModuleInterface> {
  const bytes = await moduleBytes(file);
  const texts = candidTexts(bytes);
  const service = texts.get('candid:service');
  return { service, initTypes: texts.get('candid:args')?.trim() ?? initTypesIn(service) };
}

async function moduleBytes(file: Blob): Promise<Uint8Array> {
  const head = new Uint8Array(await file.slice(0, HEADER_BYTES).arrayBuffer());
  const isGzip = head[0] === 0x1f && head[1] === 0x8b;
  const bytes = isGzip ? await unpacked(file) : new Uint8Array(await file.arrayBuffer());
  if (MAGIC.some((byte, index) => bytes[index] !== byte)) {
    throw new Error('the file is no WebAssembly module: choose a .wasm or .wasm.gz');
  }
  return bytes;
}

async function unpacked(file: Blob): Promise<Uint8Array> {
  const parts: BlobPart[] = [];
  let length = 0;
  const reader = file.stream().pipeThrough(new DecompressionStream('gzip')).getReader();
  try {
    for (let part = await reader.read(); part.value !== undefined; part = await reader.read()) {
      length += part.value.length;
      if (length > MODULE_BYTES_MAX) throw new Error('the module has more than 512 MiB');
      parts.push(part.value);
    }
  } catch (error) {
    throw error instanceof TypeError ? new Error('the file is broken gzip: build it again', { cause: error }) : error;
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** Returns the texts of `icp:public candid:…` and `icp:private candid:…` by the names behind the blank. */
function candidTexts(bytes: Uint8Array): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  let at = HEADER_BYTES;
  const number = (): number => {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = bytes[at++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (at < bytes.length) {
    const id = bytes[at++];
    const size = number();
    const end = at + size;
    if (id === 0 && end <= bytes.length) {
      const nameLength = number();
      const decoder = new TextDecoder();
      const [, name] = /^icp:(?:public|private) (.*)$/.exec(decoder.decode(bytes.subarray(at, at + nameLength))) ?? [];
      if (name !== undefined) texts.set(name, decoder.decode(bytes.subarray(at + nameLength, end)));
    }
    at = end;
  }
  return texts;
}

/** Returns the tuple in front of the arrow of `service : (…) -> {`, the last declaration of .did text. */
function initTypesIn(service: string | undefined): string | undefined {
  const [, rest] = /\bservice\b\s*\w*\s*:\s*(\([^]*)$/.exec(service ?? '') ?? [];
  if (rest === undefined) return service === undefined ? undefined : '()';
  let depth = 0;
  for (let index = 0; index < rest.length; index++) {
    if (rest[index] === '(') depth++;
    else if (rest[index] === ')' && --depth === 0) {
      return /^\s*->/.test(rest.slice(index + 1)) ? rest.slice(0, index + 1).replaceAll(/\s+/g, ' ') : '()';
    }
  }
  return undefined;
}
