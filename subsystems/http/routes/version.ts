import { queryParametersOf } from '../request-target.ts';
import type { Route, RouteHost } from '../route.ts';

export interface VersionInfo {
  readonly version: string;
  /** The commit this server was built from, or `dev`. */
  readonly build: string;
}

/** `GET /version`. */
export function versionRoutes({ responder }: RouteHost, { version, build }: VersionInfo): readonly Route[] {
  const info = { version, build, node: process.versions.node, v8: process.versions.v8 };
  return [
    {
      method: 'GET',
      path: '/version',
      handle(request, response) {
        queryParametersOf(request.url ?? '', []);
        responder.json(response, 200, info);
      },
    },
  ];
}
