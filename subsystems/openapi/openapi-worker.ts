/** The thread that makes documents: one request, one document. */
import { serveJobs } from '../threads/index.ts';
import { type DocumentRequest, openApiDocument } from './document.ts';

serveJobs((request: DocumentRequest) => new TextEncoder().encode(JSON.stringify(openApiDocument(request))));
