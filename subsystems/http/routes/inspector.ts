import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import { takesGzip } from '../accept.ts';
import type { Handler, Handlers, RouteHost } from '../route.ts';

const HTML = 'text/html; charset=utf-8';
const compress = promisify(gzip);

/**
 * `GET /inspector` and `GET /`: the inspector page, open to everybody. What it shows it asks for with the token. A
 * client that takes gzip gets the page in it, under a tag of its own.
 */
export function inspectorHandlers({ inspector, responder }: RouteHost): Pick<Handlers, 'GET /inspector' | 'GET /'> {
  const compressed = new CompressedPage();
  const page: Handler = async (request, response) => {
    const { html, etag, headers } = inspector.page();
    const isGzip = takesGzip(request.headers['accept-encoding']);
    const tag = isGzip ? `${etag.slice(0, -1)}-gzip"` : etag;
    const more = [...headers, 'etag', tag, 'vary', 'accept-encoding'];
    if (isCurrent(request.headers['if-none-match'], tag)) responder.empty(response, 304, more);
    else if (!isGzip) responder.bytes(response, 200, HTML, html, more);
    else responder.bytes(response, 200, HTML, await compressed.of(html), [...more, 'content-encoding', 'gzip']);
  };
  return { 'GET /inspector': page, 'GET /': page };
}

/** The page in gzip, made outside the main thread when the first client asks for it, and kept. */
class CompressedPage {
  #html: Uint8Array | undefined;
  #bytes: Promise<Uint8Array> | undefined;

  of(html: Uint8Array): Promise<Uint8Array> {
    if (this.#bytes === undefined || this.#html !== html) {
      this.#html = html;
      this.#bytes = compress(html, { level: constants.Z_BEST_COMPRESSION });
    }
    return this.#bytes;
  }
}

/** Returns true if the client has the page with this tag (RFC 9110, 13.1.2: tags are compared weakly). */
function isCurrent(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((tag) => ['*', etag, `W/${etag}`].includes(tag.trim()));
}
