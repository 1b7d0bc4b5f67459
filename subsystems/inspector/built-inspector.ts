import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Inspector, InspectorPage } from './index.ts';

const PAGE = new URL('page.html', import.meta.url);

/** Serves the page that `npm run build:inspector` built from `page/`, from memory. */
export class BuiltInspector implements Inspector {
  readonly #page: InspectorPage;

  /** `html` replaces the built page. */
  constructor(html: Uint8Array = readFileSync(PAGE)) {
    this.#page = {
      html,
      etag: `"${sha256(html).slice(0, 27)}"`,
      headers: headersOf(Buffer.from(html).toString('utf8')),
    };
  }

  page(): InspectorPage {
    return this.#page;
  }
}

/**
 * Returns the headers that isolate the page. Actors choose names, output and results that it shows: if one of them ever
 * became markup, only the page's own script could run (by its hash), nothing could be loaded from or sent to other
 * places, and no string could become HTML (trusted types). Nobody may frame the page or keep a handle on its window.
 */
function headersOf(html: string): readonly string[] {
  const policy = [
    "default-src 'none'",
    `script-src ${hashesOf(html, 'script')}`,
    `style-src ${hashesOf(html, 'style')}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ];
  return [
    'content-security-policy',
    policy.join('; '),
    'cross-origin-opener-policy',
    'same-origin',
    'x-content-type-options',
    'nosniff',
    'referrer-policy',
    'no-referrer',
    'cache-control',
    'no-cache',
  ];
}

/** Returns the hashes of all inline elements of this kind, in the form of a policy; a page without any allows none. */
function hashesOf(html: string, element: 'script' | 'style'): string {
  const contents = [...html.matchAll(new RegExp(`<${element}\\b[^>]*>([^]*?)</${element}>`, 'g'))];
  if (contents.length === 0) return "'none'";
  return contents.map(([, content = '']) => `'sha256-${sha256(Buffer.from(content, 'utf8'))}'`).join(' ');
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64');
}
