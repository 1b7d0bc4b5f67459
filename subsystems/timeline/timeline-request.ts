/** Requests to the timeline thread, and its answers. */
import type { StoredImage } from '../storage/index.ts';
import type { PageAsked, PastMessage, PastState, Place, TimelinePage } from './index.ts';
import type { ServerFacts } from './known-servers.ts';
import type { TimePoint } from './time-point.ts';
import type { Taken, TimelineBounds, TimelineFigures } from './timeline-store.ts';

interface AskedOf {
  readonly id: Uint8Array;
  readonly point: TimePoint;
}

/** Each with its answer. */
export interface TimelineRequests {
  /** A server with these facts executes what comes behind the unit. */
  begin: { readonly asked: { readonly unit: number; readonly facts: ServerFacts }; readonly answer: undefined };
  take: {
    readonly asked: { readonly frames: readonly Uint8Array[] };
    readonly answer: Taken & { readonly last: number };
  };
  /** Units up to this one will not come. */
  gap: { readonly asked: { readonly unit: number }; readonly answer: number };
  last: { readonly asked: object; readonly answer: number };
  base: {
    readonly asked: { readonly id: Uint8Array; readonly image: StoredImage | undefined };
    readonly answer: string | undefined;
  };
  module: { readonly asked: { readonly hash: string; readonly bytes: Uint8Array }; readonly answer: undefined };
  sync: { readonly asked: object; readonly answer: number };
  figures: { readonly asked: object; readonly answer: TimelineFigures };
  page: { readonly asked: { readonly id: Uint8Array; readonly page: PageAsked }; readonly answer: TimelinePage };
  placeOf: { readonly asked: AskedOf; readonly answer: Place };
  messageAt: { readonly asked: { readonly id: Uint8Array; readonly seq: number }; readonly answer: PastMessage };
  stateAt: { readonly asked: AskedOf; readonly answer: PastState };
  label: { readonly asked: AskedOf & { readonly label: string }; readonly answer: Place };
  unlabel: { readonly asked: { readonly id: Uint8Array; readonly label: string }; readonly answer: undefined };
}
export type TimelineRequestKind = keyof TimelineRequests;

/** Told with each request: a thread that has died begins again. */
interface TimelineHost {
  /** The state directory. */
  readonly directory: string;
  readonly bounds: TimelineBounds;
  readonly nowMs: number;
}

export type TimelineRequest = {
  readonly [K in TimelineRequestKind]: { readonly kind: K; readonly host: TimelineHost } & TimelineRequests[K]['asked'];
}[TimelineRequestKind];
