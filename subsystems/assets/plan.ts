/** The difference between a folder and what an actor has of it, as operations of the asset canister's interface. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { messageOf } from '../../kernel/index.ts';
import { contentTypeOf } from './content-types.ts';
import { folderFault } from './faults.ts';
import type { FolderFile } from './folder.ts';
import { type HeaderPair, readHeaders, readRedirects } from './rules.ts';

/** One form of a file: a file of the folder, or bytes that were made of one. */
interface WantedContent {
  readonly encoding: string;
  /** Base64. */
  readonly sha256: string;
  readonly from: FolderFile | Uint8Array;
}

export interface WantedFile {
  readonly key: string;
  readonly contentType: string;
  readonly headers: readonly HeaderPair[];
  readonly contents: readonly WantedContent[];
}

/** An entry of `list`, as JSON has it. `headers` is missing where the actor does not tell. */
export interface ListedFile {
  readonly key: string;
  readonly content_type: string;
  readonly headers: readonly HeaderPair[] | null;
  readonly encodings: readonly { readonly content_encoding: string; readonly sha256: string | null }[];
}

/** A content to be sent, and for which file. */
export interface ContentToSend {
  readonly key: string;
  readonly content: WantedContent;
}

export interface AssetPlan {
  /** Operations before the contents are set. */
  readonly operations: readonly unknown[];
  readonly contents: readonly ContentToSend[];
  /** Files that are added, changed or removed. */
  readonly files: number;
}

const HEADERS_KEY = '/_headers';
const REDIRECTS_KEY = '/_redirects';
/** Files of rules are read as a whole. */
const RULES_BYTES_MAX = 1024 * 1024;
const PACKED: readonly (readonly [ending: string, encoding: string])[] = [
  ['.gz', 'gzip'],
  ['.br', 'br'],
];

/** Returns the files that a site is to have. Throws ServerError `assets-rules`. */
export function wantedFiles(files: readonly FolderFile[], hasRedirects: boolean): readonly WantedFile[] {
  const byKey = new Map(files.map((file) => [file.key, file]));
  const headersOf = readHeaders(textOf(byKey.get(HEADERS_KEY)));
  const wanted: WantedFile[] = [];
  for (const file of files) {
    const { key } = file;
    if (key === HEADERS_KEY || key === REDIRECTS_KEY || isPackedForm(key, byKey)) continue;
    const contents = [contentOf('identity', file)];
    for (const [ending, encoding] of PACKED) {
      const packed = byKey.get(key + ending);
      if (packed !== undefined) contents.push(contentOf(encoding, packed));
    }
    wanted.push({ key, contentType: contentTypeOf(key), headers: headersOf(key), contents });
  }
  const rules = readRedirects(textOf(byKey.get(REDIRECTS_KEY)));
  if (rules !== '' && hasRedirects) {
    const bytes = Buffer.from(rules);
    const sha256 = createHash('sha256').update(bytes).digest('base64');
    const contents = [{ encoding: 'identity', sha256, from: bytes }];
    wanted.push({ key: REDIRECTS_KEY, contentType: contentTypeOf('.txt'), headers: [], contents });
  }
  return wanted;
}

function isPackedForm(key: string, byKey: ReadonlyMap<string, FolderFile>): boolean {
  return PACKED.some(([ending]) => key.endsWith(ending) && byKey.has(key.slice(0, -ending.length)));
}

function contentOf(encoding: string, from: FolderFile): WantedContent {
  return { encoding, sha256: from.sha256, from };
}

function textOf(file: FolderFile | undefined): string {
  if (file === undefined) return '';
  if (file.size > RULES_BYTES_MAX)
    throw folderFault(`${file.path} has ${file.size} of at most ${RULES_BYTES_MAX} bytes`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file.path));
  } catch (error) {
    throw folderFault(`${file.path} cannot be read: ${messageOf(error)}`, error);
  }
}

/** Returns what makes an actor's files the wanted ones. */
export function planOf(wanted: readonly WantedFile[], listed: readonly ListedFile[]): AssetPlan {
  const operations: unknown[] = [];
  const contents: ContentToSend[] = [];
  const left = new Map(listed.map((file) => [file.key, file]));
  let files = 0;
  for (const file of wanted) {
    const known = left.get(file.key);
    left.delete(file.key);
    const before = operations.length + contents.length;
    if (known !== undefined && known.content_type === file.contentType) change(file, known, operations, contents);
    else {
      if (known !== undefined) operations.push({ DeleteAsset: { key: file.key } });
      const headers = file.headers.length === 0 ? null : file.headers;
      operations.push({ CreateAsset: { key: file.key, content_type: file.contentType, headers } });
      for (const content of file.contents) contents.push({ key: file.key, content });
    }
    if (operations.length + contents.length > before) files++;
  }
  for (const key of left.keys()) operations.push({ DeleteAsset: { key } });
  return { operations, contents, files: files + left.size };
}

function change(file: WantedFile, known: ListedFile, operations: unknown[], contents: ContentToSend[]): void {
  const { key, headers } = file;
  const isOther = known.headers !== null && JSON.stringify(known.headers) !== JSON.stringify(headers);
  // An optional value of an optional list, in JSON.
  if (isOther) operations.push({ SetAssetProperties: { key, headers: [headers] } });
  const hashes = new Map(known.encodings.map(({ content_encoding: name, sha256 }) => [name, sha256]));
  for (const content of file.contents) {
    if (hashes.get(content.encoding) !== content.sha256) contents.push({ key, content });
    hashes.delete(content.encoding);
  }
  for (const encoding of hashes.keys()) operations.push({ UnsetAssetContent: { key, content_encoding: encoding } });
}
