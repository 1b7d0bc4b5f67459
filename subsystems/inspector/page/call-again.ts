import type { HistoryEntry } from './api.ts';
import type { DidInterface } from './candid/did-types.ts';
import { encodeForm } from './candid/encode-form.ts';
import { readCandid } from './candid/read-text.ts';
import { messageOf } from './messages.ts';

const ANONYMOUS = '2vxsx-fae';
const KINDS = new Set(['update', 'query', 'call']);

/** Arguments and caller of a message as a call has them; undefined: it was none. */
export function callAgain(
  { kind, method, args, caller }: Pick<HistoryEntry, 'kind' | 'method' | 'args' | 'caller'>,
  types: DidInterface | undefined,
): { readonly args: string; readonly caller: string | undefined } | { readonly problem: string } | undefined {
  if (!KINDS.has(kind)) return undefined;
  const described = types?.methods.find(({ name }) => name === method);
  if (described === undefined) return { problem: 'the interface does not have its method' };
  try {
    const values = readCandid(
      described.parameters.map(({ type }) => type),
      args,
    );
    const filled = described.parameters.flatMap(({ type }, index) => {
      const value = values[index];
      return value === undefined ? [] : [{ type, value }];
    });
    return { args: encodeForm(filled, false, new Map()), caller: caller === ANONYMOUS ? undefined : caller };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}
