/** The thread that makes documents and declarations of types: one request, one of them. */
import { serveJobs } from '../threads/index.ts';
import { type DocumentRequest, openApiDocument } from './document.ts';
import { documentBytes } from './size-budget.ts';
import { typeDeclarations } from './type-declarations.ts';

serveJobs((request: DocumentRequest) =>
  request.form === 'types'
    ? new TextEncoder().encode(typeDeclarations(request))
    : documentBytes(openApiDocument(request)),
);
