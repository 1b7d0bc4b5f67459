import type { NamedImport } from '../compiler/index.ts';

export interface ClosureFile {
  readonly path: string;
  /** The package that the file belongs to; null: the project itself. */
  readonly package: string | null;
  /** SHA-256 in hex. */
  readonly sha256: string;
  readonly bytes: Uint8Array;
}

/** An import of a file that cannot be used. */
export interface UnusableFile extends NamedImport {
  readonly path: string;
  readonly reason: string;
}

export interface ClosureContent {
  readonly entry: string;
  /** Files sorted by path. */
  readonly files: readonly ClosureFile[];
  readonly missing: readonly NamedImport[];
  readonly unusable: readonly UnusableFile[];
  readonly external: readonly NamedImport[];
  /** Warnings for a person. */
  readonly warnings: readonly string[];
}

/** Approximate length of a piece; a multiple of 3 bytes is a whole number of Base64 characters. */
const PIECE_BYTES = 768 * 1024;

/** Yields the document in pieces; none holds the thread for more than some milliseconds. */
export function* jsonPieces({ entry, files, ...rest }: ClosureContent): Generator<Uint8Array> {
  let text = `{"entry":${JSON.stringify(entry)},"files":[`;
  for (const [k, { path, package: name, sha256, bytes }] of files.entries()) {
    const about = `"path":${JSON.stringify(path)},"package":${JSON.stringify(name)},"sha256":"${sha256}"`;
    text += `${k === 0 ? '' : ','}{${about},"base64":"`;
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) {
      text += base64Of(bytes.subarray(from, from + PIECE_BYTES));
      if (text.length >= PIECE_BYTES) {
        yield Buffer.from(text);
        text = '';
      }
    }
    text += '"}';
  }
  yield Buffer.from(`${text}],${restJson(rest)}}`);
}

function restJson({ missing, unusable, external, warnings }: Omit<ClosureContent, 'entry' | 'files'>): string {
  const named = ({ url, from }: NamedImport): object => ({ import: url, from });
  const parts = {
    missing: missing.map(named),
    unusable: unusable.map(({ path, reason, ...found }) => ({ ...named(found), path, reason })),
    external: external.map(named),
    warnings,
  };
  return JSON.stringify(parts).slice(1, -1);
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');
}
