import type { Handler, Handlers, RouteHost } from '../route.ts';

const HTML = 'text/html; charset=utf-8';

/** `GET /inspector` and `GET /`: the inspector page, open to everybody. What it shows it asks for with the token. */
export function inspectorHandlers({ inspector, responder }: RouteHost): Pick<Handlers, 'GET /inspector' | 'GET /'> {
  const page: Handler = (request, response) => {
    const { html, etag, headers } = inspector.page();
    const more = [...headers, 'etag', etag];
    if (isCurrent(request.headers['if-none-match'], etag)) responder.empty(response, 304, more);
    else responder.bytes(response, 200, HTML, html, more);
  };
  return { 'GET /inspector': page, 'GET /': page };
}

/** Returns true if the client has the page with this tag (RFC 9110, 13.1.2: tags are compared weakly). */
function isCurrent(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(',').some((tag) => ['*', etag, `W/${etag}`].includes(tag.trim()));
}
