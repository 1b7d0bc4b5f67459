import { messageOf, ServerError } from '../../../kernel/index.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { operatedHandler } from './operated.ts';

/**
 * `GET /x/actors/<ACTOR>/public`: the methods that answer requests without the token; `PUT` opens those that it names
 * and closes all others.
 */
export function publicHandlers(
  host: RouteHost,
): Pick<Handlers, 'GET /x/actors/:actor/public' | 'PUT /x/actors/:actor/public'> {
  const { canisters } = host;
  return {
    'GET /x/actors/:actor/public': operatedHandler(host, 'public', ({ canister }) =>
      Promise.resolve([...canister.openMethods.names]),
    ),
    'PUT /x/actors/:actor/public': operatedHandler(host, 'change-public', async ({ canister, body }) => {
      await canisters.setOpenMethods(canister, namesOf(body));
      return [...canister.openMethods.names];
    }),
  };
}

/** Returns the names of a body. Throws ServerError `bad-public`. */
function namesOf(body: Uint8Array): readonly string[] {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
  } catch (error) {
    throw badPublic(messageOf(error));
  }
  if (!Array.isArray(value)) throw badPublic('the body is no array');
  return value.map((name: unknown, at) => {
    if (typeof name !== 'string') throw badPublic(`[${at}] is no text`);
    return name;
  });
}

function badPublic(why: string): ServerError {
  return new ServerError(
    'invalid',
    'bad-public',
    `${why}: send a JSON array with the names of all methods that are to be open, such as ["get"]`,
  );
}
