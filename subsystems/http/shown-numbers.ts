import type { Metrics } from '../metrics/index.ts';
import type { AuditLog } from './audit-log.ts';
import type { Connections } from './connections.ts';
import type { EventStreams } from './event-streams.ts';
import type { OpenTargets } from './open-targets.ts';

/** Shows the numbers of the HTTP server that are no requests. */
export function showNumbers(
  metrics: Metrics,
  connections: Connections,
  streams: EventStreams,
  open: Pick<OpenTargets, 'admitted' | 'refused'>,
  audit: AuditLog | undefined,
): void {
  const gauge = (name: `svc_${string}`, help: string, read: () => number): void =>
    metrics.show({ name, type: 'gauge', help, read });
  gauge('svc_http_connections', 'Open connections.', () => connections.size);
  gauge('svc_http_connections_max', 'Connections that may be open at once.', () => connections.max);
  gauge('svc_http_event_streams', 'Open event streams.', () => streams.size);
  const counter = (name: `svc_${string}`, help: string, read: () => number): void =>
    metrics.show({ name, type: 'counter', help, read });
  const displaced = 'Connections that were closed, or not taken, because there were too many.';
  counter('svc_http_connections_displaced_total', displaced, () => connections.displaced);
  counter('svc_http_open_requests_total', 'Requests for open methods.', () => open.admitted);
  const refused = 'Calls without credentials that were refused, as what they asked for is not open.';
  counter('svc_http_open_refused_total', refused, () => open.refused);
  const denied = 'Requests that were answered 401 or 403 (with --audit).';
  counter('svc_audit_denied_total', denied, () => audit?.denials ?? 0);
  const unwritten = 'Lines of the audit that could not be written, of what was done or denied by then.';
  counter('svc_audit_unwritten_total', unwritten, () => audit?.unwritten ?? 0);
}
