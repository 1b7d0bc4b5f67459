import { extname } from 'node:path';

const UTF8 = '; charset=utf-8';

/** Types by extension (RFC 9239, the IANA registry); text is UTF-8. */
const TYPES: Readonly<Record<string, string>> = {
  '.atom': `application/atom+xml${UTF8}`,
  '.avif': 'image/avif',
  '.bmp': 'image/bmp',
  '.css': `text/css${UTF8}`,
  '.csv': `text/csv${UTF8}`,
  '.did': `text/plain${UTF8}`,
  '.gif': 'image/gif',
  '.gz': 'application/gzip',
  '.htm': `text/html${UTF8}`,
  '.html': `text/html${UTF8}`,
  '.ico': 'image/x-icon',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.js': `text/javascript${UTF8}`,
  '.json': 'application/json',
  '.jsonld': 'application/ld+json',
  '.m4a': 'audio/mp4',
  '.m4v': 'video/mp4',
  '.map': 'application/json',
  '.md': `text/markdown${UTF8}`,
  '.mjs': `text/javascript${UTF8}`,
  '.mo': `text/plain${UTF8}`,
  '.mp3': 'audio/mpeg',
  '.mp4': 'video/mp4',
  '.oga': 'audio/ogg',
  '.ogg': 'audio/ogg',
  '.ogv': 'video/ogg',
  '.otf': 'font/otf',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.rss': `application/rss+xml${UTF8}`,
  '.svg': 'image/svg+xml',
  '.tar': 'application/x-tar',
  '.ts': `text/plain${UTF8}`,
  '.ttf': 'font/ttf',
  '.txt': `text/plain${UTF8}`,
  '.wasm': 'application/wasm',
  '.wav': 'audio/wav',
  '.weba': 'audio/webm',
  '.webm': 'video/webm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
  '.xhtml': `application/xhtml+xml${UTF8}`,
  '.xml': `application/xml${UTF8}`,
  '.zip': 'application/zip',
};

/** Returns the type of a file by its name, in any case of letters. */
export function contentTypeOf(name: string): string {
  const extension = extname(name).toLowerCase();
  return Object.hasOwn(TYPES, extension) ? (TYPES[extension] ?? UNKNOWN) : UNKNOWN;
}
const UNKNOWN = 'application/octet-stream';
