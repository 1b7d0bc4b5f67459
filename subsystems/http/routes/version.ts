import type { Handlers, RouteHost } from '../route.ts';

export interface VersionInfo {
  readonly version: string;
  /** The commit this server was built from, or `dev`. */
  readonly build: string;
}

/** `GET /version`. */
export function versionHandlers(
  { responder }: RouteHost,
  { version, build }: VersionInfo,
): Pick<Handlers, 'GET /version'> {
  const info = { version, build, node: process.versions.node, v8: process.versions.v8 };
  return { 'GET /version': (_request, response) => responder.json(response, 200, info) };
}
