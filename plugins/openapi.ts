import { definePlugin } from '../kernel/index.ts';
import { Auth } from '../subsystems/auth/index.ts';
import { OpenApi } from '../subsystems/openapi/index.ts';
import { NoOpenApi } from '../subsystems/openapi/no-openapi.ts';
import { OpenApiDocuments } from '../subsystems/openapi/openapi-documents.ts';

export const openApiPlugin = definePlugin({
  name: 'openapi',
  provides: OpenApi,
  requires: { auth: Auth },
  // Whoever shows no token is let in only where none is wanted.
  create: ({ auth }) => new OpenApiDocuments({ isGuarded: !auth.allows(undefined) }),
  disabled: () => new NoOpenApi(),
  stop: (documents) => documents.close(),
  stopDeadlineMs: 5_000,
});
