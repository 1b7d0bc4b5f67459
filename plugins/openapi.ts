import { definePlugin } from '../kernel/index.ts';
import { Auth } from '../subsystems/auth/index.ts';
import { OpenApi } from '../subsystems/openapi/index.ts';
import { NoOpenApi } from '../subsystems/openapi/no-openapi.ts';
import { OpenApiDocuments } from '../subsystems/openapi/openapi-documents.ts';

export const openApiPlugin = definePlugin({
  name: 'openapi',
  provides: OpenApi,
  requires: { auth: Auth },
  // Requests without a token are allowed only if the server requires none.
  create: ({ auth }) => new OpenApiDocuments({ isGuarded: !auth.allows(undefined) }),
  disabled: () => new NoOpenApi(),
  stop: (documents) => documents.close(),
  stopDeadlineMs: 5_000,
});
