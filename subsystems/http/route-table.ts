/**
 * Every path of the interface, once. From this table the server makes its router, its open targets, its body caps and
 * its 404s; `docs/http.md` has it as a table, and the tests walk it. A path that is not in the table belongs to
 * nobody, or, with `--web`, to a website.
 */
import { CLUSTER_ROUTES } from './cluster-routes.ts';
import type { RouteSpec } from './route-spec.ts';
import { TIME_ROUTES } from './time-routes.ts';

export type { RouteSpec } from './route-spec.ts';

const MIB = 1024 * 1024;
/** Modules are large: the largest that the reference hosts take, with room for a wrapper. */
export const MODULE_BYTES_MAX = 192 * MIB;
export const GUARDED_BYTES_MAX = 64 * MIB;
export const GATEWAY_BYTES_MAX = 8 * MIB;
/** Longer .did text is not parsed; the largest known have some 100 KB. */
export const DID_BYTES_MAX = 1 * MIB;
/** As much JSON as the main thread parses. */
export const WATCH_BYTES_MAX = MIB / 4;

/** Facts that operators give an actor with its code. */
const FACTS = { certificate: ['placeholder', 'signed'] } as const;

export const ROUTES = [
  {
    method: 'POST',
    path: '/call-json/:actor/:method',
    takesCaller: true,
    access: 'token',
    scope: 'call',
    query: { lossless: '1' },
    job: 'call',
    request: 'JSON array of arguments',
    answer: 'JSON array of results (`docs/json-encoding.md`)',
  },
  {
    method: 'POST',
    path: '/query-json/:actor/:method',
    takesCaller: true,
    access: 'token',
    scope: 'query',
    query: { lossless: '1', at: undefined },
    job: 'query',
    request: 'the same; not for update methods; `at`: a point of the past (`docs/time-travel.md`)',
    answer: 'the same',
  },
  {
    method: 'POST',
    path: '/call/:actor/:method',
    takesCaller: true,
    access: 'token',
    scope: 'call',
    job: 'call',
    request: 'Candid',
    answer: 'Candid',
  },
  {
    method: 'POST',
    path: '/query/:actor/:method',
    takesCaller: true,
    access: 'token',
    scope: 'query',
    query: { at: undefined },
    job: 'query',
    request: 'Candid; not for update methods',
    answer: 'Candid',
  },
  {
    method: 'GET',
    path: '/watch/:actor/:method',
    takesCaller: true,
    isOpenEnded: true,
    access: 'token',
    scope: 'watch',
    query: { args: undefined, lossless: '1' },
    request: '`args`: JSON array of arguments; not for update methods',
    answer: 'server-sent events: the results, and again when they change',
  },
  {
    method: 'GET',
    path: '/watch',
    takesCaller: true,
    isOpenEnded: true,
    access: 'token',
    scope: 'watch',
    query: { q: undefined, lossless: '1' },
    repeated: 'q',
    request: '`q`, repeated: `<id>:<ACTOR>/<METHOD>:<JSON array of arguments>`',
    answer: 'server-sent events of several queries',
  },
  {
    method: 'POST',
    path: '/watch',
    takesCaller: true,
    isOpenEnded: true,
    access: 'token',
    scope: 'watch',
    query: { lossless: '1' },
    bodyBytesMax: WATCH_BYTES_MAX,
    request: '`{"queries":[{"id","actor","method","args"}]}`',
    answer: 'the same',
  },
  {
    method: 'GET',
    path: '/openapi/:actor',
    access: 'token',
    scope: 'describe',
    request: '',
    answer: 'OpenAPI 3.1 document of the JSON endpoints',
  },
  {
    method: 'GET',
    path: '/x/actors/:actor/types',
    access: 'token',
    scope: 'describe',
    job: 'types',
    request: '',
    answer: 'TypeScript declarations for the JSON endpoints',
  },
  {
    method: 'GET',
    path: '/candid/:actor',
    access: 'token',
    scope: 'describe',
    request: '',
    answer: 'the interface, .did text, or its types as JSON with `Accept: application/json`',
  },
  {
    method: 'PUT',
    path: '/candid/:actor',
    isAudited: true,
    access: 'token',
    scope: 'upgrade',
    bodyBytesMax: DID_BYTES_MAX,
    job: 'candid',
    request: '.did text, for a module that carries none',
    answer: '`kept`',
  },
  {
    method: 'GET',
    path: '/actors',
    access: 'token',
    scope: 'inspect',
    job: 'list',
    request: '',
    answer: 'JSON array of `{"name","id"}`',
  },
  {
    method: 'POST',
    path: '/install/:name',
    takesCaller: true,
    isAudited: true,
    access: 'token',
    scope: 'install',
    query: { arg: undefined, mode: 'reinstall', certificate: ['placeholder', 'signed'] },
    bodyBytesMax: MODULE_BYTES_MAX,
    job: 'install',
    request: 'a module, raw or gzip, or a form',
    answer: "the new actor's id in hex",
  },
  {
    method: 'POST',
    path: '/upgrade/:actor',
    takesCaller: true,
    isAudited: true,
    access: 'token',
    scope: 'upgrade',
    query: { ...FACTS, arg: undefined, report: '1', force: 'true', dry: '1', replay: undefined },
    bodyBytesMax: MODULE_BYTES_MAX,
    job: 'upgrade',
    request: "a module, a form, or nothing: the manifest's file",
    answer: '`upgraded`; with `report=1` what changed, with `dry=1` what would, as JSON',
  },
  {
    method: 'POST',
    path: '/stop/:actor',
    isAudited: true,
    access: 'token',
    scope: 'stop',
    job: 'stop',
    request: '',
    answer: '`stopped`',
  },
  {
    method: 'POST',
    path: '/start/:actor',
    isAudited: true,
    access: 'token',
    scope: 'stop',
    job: 'start',
    request: '',
    answer: '`started`',
  },
  {
    method: 'DELETE',
    path: '/actors/:actor',
    isAudited: true,
    access: 'token',
    scope: 'delete',
    query: { force: 'true' },
    job: 'delete',
    request: '',
    answer: '`deleted`',
  },
  {
    method: 'GET',
    path: '/cycles/:actor',
    access: 'token',
    scope: 'cycles',
    job: 'cycles',
    request: '',
    answer: 'balance, decimal text',
  },
  {
    method: 'POST',
    path: '/cycles/:actor',
    isAudited: true,
    access: 'token',
    scope: 'topup',
    job: 'topup',
    request: 'cycles to add, decimal text',
    answer: 'the new balance',
  },
  {
    method: 'GET',
    path: '/logs/:actor',
    access: 'token',
    scope: 'logs',
    job: 'logs',
    request: '',
    answer: 'what was printed since the last read, which clears it',
  },
  {
    method: 'GET',
    path: '/events/:actor',
    isOpenEnded: true,
    access: 'token',
    scope: 'logs',
    request: '',
    answer: 'the same as server-sent events, as it is printed',
  },
  {
    method: 'GET',
    path: '/history/:actor',
    access: 'token',
    scope: 'history',
    job: 'history',
    request: '',
    answer: 'JSON array of recent messages, oldest first',
  },
  {
    method: 'GET',
    path: '/x/messages/:message',
    access: 'token',
    scope: 'inspect',
    job: 'messages',
    request: '',
    answer: 'JSON array of a message and all that the same first message caused, over all actors',
  },
  {
    method: 'GET',
    path: '/x/actors/:actor/output',
    isOpenEnded: true,
    access: 'token',
    scope: 'logs',
    query: { after: undefined, message: undefined },
    job: 'output',
    request: '',
    answer:
      'what was printed behind that line, or by that message, which takes nothing: JSON, or with `Accept: text/event-stream` followed',
  },
  {
    method: 'GET',
    path: '/x/actors/:actor/settings',
    access: 'token',
    scope: 'settings',
    job: 'settings',
    request: '',
    answer: "the settings, JSON of `canister_status`'s `settings` (`docs/management.md`)",
  },
  {
    method: 'PUT',
    path: '/x/actors/:actor/settings',
    isAudited: true,
    access: 'token',
    scope: 'configure',
    job: 'change-settings',
    request: 'JSON object with those that change, as for `update_settings`; 64 KiB',
    answer: 'all settings',
  },
  {
    method: 'GET',
    path: '/x/actors/:actor/public',
    access: 'token',
    scope: 'settings',
    job: 'public',
    request: '',
    answer: 'JSON array of the methods that answer without the token (*Open methods*)',
  },
  {
    method: 'PUT',
    path: '/x/actors/:actor/public',
    isAudited: true,
    access: 'token',
    scope: 'configure',
    job: 'change-public',
    request: 'JSON array of those that are to be open; all others are closed; 64 KiB',
    answer: 'the same',
  },
  {
    method: 'GET',
    path: '/x/actors/:actor/snapshots',
    access: 'token',
    scope: 'snapshots',
    job: 'snapshots',
    request: '',
    answer: 'JSON array of `{"id","time","bytes"}`',
  },
  {
    method: 'POST',
    path: '/x/actors/:actor/snapshots',
    isAudited: true,
    access: 'token',
    scope: 'snapshots',
    query: { replace: undefined },
    job: 'take-snapshot',
    request: '`replace`: the id of one whose place it takes',
    answer: 'the snapshot',
  },
  {
    method: 'POST',
    path: '/x/actors/:actor/snapshots/:snapshot/load',
    isAudited: true,
    access: 'token',
    scope: 'snapshots',
    job: 'load-snapshot',
    request: '',
    answer: '`loaded`',
  },
  {
    method: 'DELETE',
    path: '/x/actors/:actor/snapshots/:snapshot',
    isAudited: true,
    access: 'token',
    scope: 'snapshots',
    job: 'delete-snapshot',
    request: '',
    answer: '`deleted`',
  },
  {
    method: 'GET',
    path: '/x/actors/:actor/variables',
    isAudited: true,
    access: 'token',
    scope: 'variables',
    query: { path: undefined, from: undefined, count: undefined, copy: undefined },
    job: 'variables',
    request: '`path`: the value of that variable; `from`, `count`: a part of it',
    answer: 'JSON (`docs/variables.md`)',
  },
  ...TIME_ROUTES,
  ...CLUSTER_ROUTES,
  {
    method: 'POST',
    path: '/x/types',
    access: 'token',
    scope: 'any',
    job: 'types',
    request: '`{"candid","init"}`: .did text, and the types of the arguments of `init` as a Candid tuple; 256 KiB',
    answer: 'its types as JSON, as `GET /candid/<ACTOR>` tells them, and those of `init`',
  },
  {
    method: 'GET',
    path: '/x/me',
    access: 'token',
    scope: 'any',
    job: 'me',
    request: '',
    answer: 'the rights of whoever asks: JSON `{"name","may","caller","claims"}`',
  },
  {
    method: 'GET',
    path: '/inspect',
    access: 'token',
    scope: 'inspect',
    query: { after: undefined, limit: undefined, name: undefined, actor: undefined },
    job: 'inspect',
    request: '`actor`: with `Accept: text/event-stream` alone',
    answer: 'JSON array, one object an actor; with `Accept: text/event-stream` one again and again',
  },
  {
    method: 'GET',
    path: '/x/host',
    access: 'token',
    scope: 'inspect',
    query: {
      find: undefined,
      state: undefined,
      sort: undefined,
      order: undefined,
      offset: undefined,
      limit: undefined,
      actor: undefined,
    },
    job: 'host',
    request: '`actor`: with `Accept: text/event-stream` alone',
    answer:
      'the host in figures, a page of its actors, the latest failures; with `Accept: text/event-stream` again and again',
  },
  {
    method: 'GET',
    path: '/metrics',
    access: 'token',
    scope: 'metrics',
    request: '',
    answer: '`docs/metrics.md`',
  },
  {
    method: 'GET',
    path: '/backup',
    isAudited: true,
    isOpenEnded: true,
    access: 'token',
    scope: 'backup',
    request: '',
    answer: 'the whole state',
  },
  {
    method: 'GET',
    path: '/mops/closure/*',
    access: 'token',
    scope: 'closure',
    request: '',
    answer: 'the sources that a Motoko file of `--project` depends on (`docs/mops.md`)',
  },
  {
    method: 'GET',
    path: '/inspector',
    access: 'open',
    request: '',
    answer: 'the inspector page',
  },
  {
    method: 'GET',
    path: '/',
    access: 'open',
    request: '',
    answer: 'the inspector page',
  },
  {
    method: 'GET',
    path: '/health',
    access: 'probe',
    request: '',
    answer: '`ok`',
  },
  {
    method: 'GET',
    path: '/health/ready',
    access: 'probe',
    request: '',
    answer: '`ready`, or 503',
  },
  {
    method: 'GET',
    path: '/version',
    access: 'open',
    request: '',
    answer: '`{"version","build","node","v8"}`',
  },
] as const satisfies readonly RouteSpec[];

type KeyOf<S> = S extends { readonly method: infer M extends string; readonly path: infer P extends string }
  ? `${M} ${P}`
  : never;
/** `POST /call/:actor/:method` */
export type RouteKey = KeyOf<(typeof ROUTES)[number]>;

export function routeKeyOf({ method, path }: Pick<RouteSpec, 'method' | 'path'>): string {
  return `${method} ${path}`;
}

/** The class of endpoints that a route belongs to, for counting: the first segment of its path. */
export function endpointOf(path: string): string {
  return path === '/' ? 'inspector' : firstSegmentOf(path);
}

/** `call` of `/call/counter/inc?x`. */
export function firstSegmentOf(target: string): string {
  return target.split(/[/?#]/, 2)[1] ?? '';
}

/** Returns a path as people write it: `/call/:actor/:method` → `/call/<ACTOR>/<METHOD>` */
export function readablePathOf(path: string): string {
  return path
    .replace(/:(\w+)/g, (_whole, name: string) => (name === 'name' ? '<name>' : `<${name.toUpperCase()}>`))
    .replace('*', '<ENTRY>');
}
