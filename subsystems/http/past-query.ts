import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Canister } from '../canisters/index.ts';
import { parseTimePoint } from '../timeline/index.ts';
import { type JsonForm, jsonFormOf, replyAsJson } from './json-form.ts';
import { bodyOf, bodyTooLarge } from './request-body.ts';
import { BYTES, JSON_TYPE } from './responder.ts';
import type { RouteHost } from './route.ts';

/** A query of the past (`?at=POINT`). */
interface PastQuery {
  readonly canister: Canister;
  readonly method: string;
  readonly caller: Uint8Array;
  readonly at: string;
  readonly isJson: boolean;
  readonly isLossless: boolean;
  readonly bodyBytesMax: number;
}

const EMPTY_ARRAY = Buffer.from('[]');

/** Answers a query by the actor as it was, with the interface of then. */
export async function answerPastQuery(
  host: RouteHost,
  request: IncomingMessage,
  response: ServerResponse,
  { canister, method, caller, at, isJson, isLossless, bodyBytesMax }: PastQuery,
): Promise<void> {
  const { timeline, past, codec, responder, jobs } = host;
  const startedMs = jobs.nowMs();
  const failed = (reason: unknown): void => jobs.failed('past-query', canister, method, startedMs, reason);
  try {
    const body = await bodyOf(request, bodyBytesMax);
    if (body.length > bodyBytesMax) throw bodyTooLarge(bodyBytesMax);
    const place = await timeline.placeOf(canister.id, parseTimePoint(at, '?at='));
    const load = (): ReturnType<typeof timeline.stateAt> =>
      timeline.stateAt(canister.id, { kind: 'place', seq: place.seq, unit: place.unit });
    await past.ask(canister, `${place.seq} ${place.unit}`, load, async (actor) => {
      let form: JsonForm | undefined;
      if (isJson)
        form = jsonFormOf(
          codec,
          { ...actor, id: canister.id, controllers: canister.controllers },
          method,
          isLossless,
          caller,
        );
      const argument =
        form === undefined
          ? body
          : await form.args.encodeAnySize(body.length === 0 ? EMPTY_ARRAY : body, form.encoding);
      const outcome = await actor.query(method, caller, argument);
      const headers = ['svc-at', `seq:${place.seq} unit:${place.unit}`];
      if (outcome.kind !== 'reply') {
        await responder.fault(response, outcome, headers);
        failed(outcome);
        return;
      }
      const reply = form === undefined ? outcome.data : await replyAsJson(form, canister, method, outcome.data);
      responder.bytes(response, 200, form === undefined ? BYTES : JSON_TYPE, reply, headers);
      jobs.done('past-query', canister, method, startedMs);
    });
  } catch (error) {
    responder.error(response, error);
    failed(error);
  }
}
