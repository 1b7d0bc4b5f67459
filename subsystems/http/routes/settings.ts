import { isUtf8 } from 'node:buffer';
import { messageOf, ServerError } from '../../../kernel/index.ts';
import type { Handlers, RouteHost } from '../route.ts';
import { operatedHandler } from './operated.ts';

/**
 * `GET /x/actors/<ACTOR>/settings`, and `PUT` to change some of them: the settings that the management canister keeps.
 */
export function settingsHandlers(
  host: RouteHost,
): Pick<Handlers, 'GET /x/actors/:actor/settings' | 'PUT /x/actors/:actor/settings'> {
  const { operator } = host.canisters;
  return {
    'GET /x/actors/:actor/settings': operatedHandler(host, 'settings', ({ canister }) => operator.settingsOf(canister)),
    'PUT /x/actors/:actor/settings': operatedHandler(host, 'change-settings', ({ canister, body }) =>
      operator.changeSettings(canister, objectText(body)),
    ),
  };
}

/** Returns the text of one JSON object. Throws ServerError `bad-settings`. */
function objectText(body: Uint8Array): string {
  const text = isUtf8(body) ? Buffer.from(body).toString('utf8') : undefined;
  if (text === undefined) throw badSettings('the body is not UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw badSettings(messageOf(error));
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw badSettings('the body is no object');
  return text;
}

function badSettings(why: string): ServerError {
  return new ServerError(
    'invalid',
    'bad-settings',
    `${why}: send a JSON object with the settings that change, such as {"log_visibility":{"public":null}}`,
  );
}
