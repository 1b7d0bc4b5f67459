/** The thread that makes documents: one request, one document. */
import { serveJobs } from '../threads/index.ts';
import { type DocumentRequest, openApiDocument } from './document.ts';
import { documentBytes } from './size-budget.ts';

serveJobs((request: DocumentRequest) => documentBytes(openApiDocument(request)));
