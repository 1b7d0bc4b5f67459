/** Rows of the route table for the past of actors (`docs/time-travel.md`). */
import type { RouteSpec } from './route-spec.ts';

export const TIME_ROUTES = [
  {
    method: 'GET',
    path: '/x/time/timeline/:actor',
    isAudited: true,
    access: 'token',
    scope: 'time',
    query: { from: undefined, to: undefined, limit: undefined },
    job: 'timeline',
    request: '`from`, `to`: points; `limit`: at most 1,000 messages, 100 without it',
    answer: 'JSON array of messages, oldest first (`docs/time-travel.md`)',
  },
  {
    method: 'GET',
    path: '/x/time/state/:actor',
    isAudited: true,
    access: 'token',
    scope: 'time',
    query: { at: undefined },
    job: 'past-state',
    request: '`at`: a point; without it, now',
    answer: 'the state at that point: sizes, cycles, timer, module, hashes of its memories, JSON',
  },
  {
    method: 'POST',
    path: '/x/time/label/:actor/:label',
    isAudited: true,
    access: 'token',
    scope: 'time',
    query: { at: undefined },
    job: 'label',
    request: '`at`: the point that gets that name; without it, now',
    answer: 'the point, `{"seq","unit","time"}`',
  },
  {
    method: 'DELETE',
    path: '/x/time/label/:actor/:label',
    isAudited: true,
    access: 'token',
    scope: 'time',
    job: 'label',
    request: '',
    answer: '`deleted`',
  },
] as const satisfies readonly RouteSpec[];
