import { type Canister, isInternalMethod } from '../../canisters/index.ts';
import type { Handlers, RouteHost } from '../route.ts';

/** `GET /inspect`: a snapshot of every actor. */
export function inspectHandlers({ canisters, clock, jobs, responder }: RouteHost): Pick<Handlers, 'GET /inspect'> {
  return {
    'GET /inspect'(_request, response) {
      const startedMs = jobs.nowMs();
      const nowMs = clock.nowMs();
      responder.json(
        response,
        200,
        canisters.list().map((canister) => snapshotOf(canister, nowMs)),
      );
      jobs.ended('inspect', '', '', true, startedMs);
    },
  };
}

function snapshotOf(canister: Canister, nowMs: number): object {
  return {
    id: canister.idHex,
    principal: canister.principal,
    name: canister.name,
    status: canister.status,
    live: canister.isLive,
    // A balance may pass 2^53: decimal text, as everywhere else.
    cycles: String(canister.balance),
    heapBytes: canister.heapBytes,
    stableBytes: canister.stableBytes,
    messages: canister.messages,
    traps: canister.traps,
    moduleHash: canister.module?.hash ?? null,
    methods: Array.from(canister.module?.methods ?? [], ([name, kind]) => ({ name, kind })).filter(
      ({ name }) => !isInternalMethod(name),
    ),
    candid: canister.candid?.text ?? null,
    candidProblem: canister.candidProblem ?? null,
    idleMs: Math.max(0, Math.round(nowMs - canister.lastMessageMs)),
  };
}
