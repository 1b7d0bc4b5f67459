/** The timeline thread: files of timelines are written and read here, and nowhere else. */
import { collectGarbage, serveJobs } from '../threads/index.ts';
import type { TimelineRequest } from './timeline-request.ts';
import { TimelineStore } from './timeline-store.ts';

let opened: TimelineStore | undefined;

/** Frees the memories of an answer when it is sent: 45 MB of shared bytes are a small object to V8. */
function forgetSent(): void {
  setImmediate(() => collectGarbage('young'));
}

serveJobs((request: TimelineRequest): unknown => {
  const { host } = request;
  const store = (opened ??= new TimelineStore(host.directory, host.bounds));
  const { nowMs } = host;
  switch (request.kind) {
    case 'begin':
      store.servers.begin(request.unit, request.facts);
      return undefined;
    case 'take':
      return { ...store.take(Buffer.concat(request.frames), nowMs), last: store.last };
    case 'gap':
      store.gap(request.unit);
      return store.last;
    case 'last':
      return store.last;
    case 'base':
      return store.base(request.id, request.image, nowMs);
    case 'module':
      store.module(request.hash, request.bytes);
      return undefined;
    case 'sync':
      return store.sync();
    case 'figures':
      return store.figures;
    case 'page':
      return store.page(request.id, request.page, nowMs);
    case 'placeOf':
      return store.placeOf(request.id, request.point, nowMs);
    case 'stateAt':
      forgetSent();
      return store.stateAt(request.id, request.point, nowMs);
    case 'messageAt':
      forgetSent();
      return store.messageAt(request.id, request.seq);
    case 'label':
      return store.label(request.id, request.label, request.point, nowMs);
    case 'unlabel':
      store.unlabel(request.id, request.label);
      return undefined;
  }
});
