/**
 * The imports of files as the compiler's own parser reads them.
 *
 * The syntax tree is asked for them (`parseMotoko`), because the compiler's other entries do not tell all:
 * `printDeps` leaves out `blob:` imports and ends where a relative import finds no file, and `parseMotokoWithDeps`
 * gives nothing where any import cannot be resolved. Parsing whole files would take 2 s for a megabyte. Imports stand
 * at the head of a file, so the parser is given the head as the scanner finds it, unless an `import` follows that the
 * scanner did not understand; then the parser is given the whole file. Places are the scanner's, where the two agree.
 */
import { ServerError } from '../../kernel/index.ts';
import { mocProgramFile } from './core-package.ts';
import { type ImportReference, scanHead } from './import-scanner.ts';
import type { MocProcesses } from './moc-processes.ts';
import type { ParsedImport } from './moc-protocol.ts';

/** Reads the imports of many files at once. */
export interface ImportParser {
  /**
   * Returns the imports of each text, in order; for a text that the parser refuses, the imports that the scanner
   * sees.
   */
  importsOf(texts: readonly string[]): Promise<readonly (readonly ImportReference[])[]>;
}

/** Heads whose imports are remembered, and how long one of them may be. A head takes some 300 bytes. */
const KNOWN_MAX = 8192;
const KNOWN_CHARACTERS_MAX = 8192;
/** Characters that one process is given at a time; it answers all of them at once. */
const BATCH_CHARACTERS_MAX = 4_000_000;

export class CompilerImportParser implements ImportParser {
  readonly #processes: Pick<MocProcesses, 'run'>;
  readonly #known = new Map<string, readonly ParsedImport[]>();

  constructor(processes: Pick<MocProcesses, 'run'>) {
    this.#processes = processes;
  }

  async importsOf(texts: readonly string[]): Promise<readonly (readonly ImportReference[])[]> {
    const heads = texts.map((text) => {
      const { imports, end, isWhole } = scanHead(text);
      return { text, scanned: imports, parsed: isWhole ? text.slice(0, end) : text };
    });
    const found = await this.#parse(heads.map(({ parsed }) => parsed));
    // A head that the parser refuses may have been cut at the wrong place.
    const again = heads.filter(({ text, parsed }, k) => found[k] === undefined && parsed !== text);
    const whole = new Map<string, readonly ParsedImport[] | undefined>();
    for (const [k, imports] of (await this.#parse(again.map(({ text }) => text))).entries())
      whole.set(again[k]?.text ?? '', imports);
    return heads.map(({ text, scanned }, k) => {
      const imports = found[k] ?? whole.get(text);
      return imports === undefined ? scanned : placed(imports, scanned, text);
    });
  }

  async #parse(texts: readonly string[]): Promise<(readonly ParsedImport[] | undefined)[]> {
    const unknown = [...new Set(texts)].filter((text) => text !== '' && !this.#known.has(text));
    const fresh = new Map<string, readonly ParsedImport[]>();
    for (const batch of batchesOf(unknown)) {
      const response = await this.#processes.run({ kind: 'imports', program: mocProgramFile(), texts: batch });
      if (response.kind !== 'imports') {
        const reason = response.kind === 'crashed' ? response.reason : response.kind;
        throw new ServerError('invalid', 'compiler-crashed', `the compiler gave up reading imports: ${reason}`);
      }
      for (const [k, imports] of response.imports.entries()) {
        if (imports !== null) fresh.set(batch[k] ?? '', imports);
      }
    }
    const found = texts.map((text) => (text === '' ? [] : (this.#known.get(text) ?? fresh.get(text))));
    for (const [text, imports] of fresh) if (text.length <= KNOWN_CHARACTERS_MAX) this.#known.set(text, imports);
    for (const text of this.#known.keys()) {
      if (this.#known.size <= KNOWN_MAX) break;
      this.#known.delete(text);
    }
    return found;
  }
}

/** Reads with the scanner alone. */
export const scannedImports: ImportParser = {
  importsOf: async (texts) => texts.map((text) => scanHead(text).imports),
};

function* batchesOf(texts: readonly string[]): Generator<string[]> {
  let batch: string[] = [];
  let characters = 0;
  for (const text of texts) {
    if (batch.length > 0 && characters + text.length > BATCH_CHARACTERS_MAX) {
      yield batch;
      batch = [];
      characters = 0;
    }
    batch.push(text);
    characters += text.length;
  }
  if (batch.length > 0) yield batch;
}

/** The scanner's references where it saw the same imports; else those of the parser, where their declarations begin. */
function placed(
  imports: readonly ParsedImport[],
  scanned: readonly ImportReference[],
  text: string,
): readonly ImportReference[] {
  if (imports.length === scanned.length && imports.every(({ url }, k) => url === scanned[k]?.url)) return scanned;
  const lines = text.split('\n');
  return imports.map(({ url, line, byte }) => {
    const before = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    const start =
      before +
      Buffer.from(lines[line - 1] ?? '')
        .subarray(0, byte)
        .toString('utf8').length;
    return { url, start, end: Math.min(text.length, start + 'import'.length) };
  });
}
