/** Rejections as clients of the Internet Computer know them: reject codes and error codes. */
import { type Canister, isInternalMethod } from '../canisters/index.ts';
import { ANONYMOUS, type Outcome, REJECT_CODE, type Response, sameBytes } from '../ic/index.ts';

export interface Rejection {
  readonly code: number;
  readonly message: string;
  /** `IC0536`. */
  readonly errorCode: string;
}

type Failed = Exclude<Outcome, { readonly kind: 'reply' }>;

/** Error codes of rejections that no row of its own names, by reject code. */
const BY_CODE: Readonly<Record<number, string>> = {
  [REJECT_CODE.SYS_FATAL]: 'IC0504',
  [REJECT_CODE.SYS_TRANSIENT]: 'IC0201',
  [REJECT_CODE.DESTINATION_INVALID]: 'IC0301',
  [REJECT_CODE.CANISTER_REJECT]: 'IC0406',
  [REJECT_CODE.CANISTER_ERROR]: 'IC0502',
  [REJECT_CODE.SYS_UNKNOWN]: 'IC0406',
};

/** Returns the rejection of a message that was executed. */
export function rejectionOf({ kind, code, message }: Failed): Rejection {
  if (kind === 'outOfCycles') return { code: REJECT_CODE.SYS_TRANSIENT, message, errorCode: 'IC0207' };
  if (kind === 'limit') return { code, message, errorCode: 'IC0522' };
  if (kind === 'noReply') return { code, message, errorCode: 'IC0506' };
  return { code, message, errorCode: BY_CODE[code] ?? 'IC0502' };
}

/** Returns the reply of a message that was executed, or its rejection. */
export function resultOf(outcome: Outcome): Uint8Array | Rejection {
  return outcome.kind === 'reply' ? outcome.data : rejectionOf(outcome);
}

const NUMBERED = /^(IC\d{4}): (.*)$/su;

/** Returns the rejection that the management canister answers with: its text begins with the error code. */
export function managementRejection({ code, message }: Extract<Response, { readonly kind: 'reject' }>): Rejection {
  const [, errorCode = BY_CODE[code] ?? 'IC0502', rest = message] = NUMBERED.exec(message) ?? [];
  return { code, message: rest, errorCode };
}

/** Returns the rejection of a message that was never accepted. */
export function refusalOf(outcome: Failed, { status }: Pick<Canister, 'status'>): Rejection {
  const { kind, code, message } = outcome;
  if (kind === 'reject' && status === 'stopped') return { code, message, errorCode: 'IC0508' };
  if (kind === 'reject' && status === 'stopping') return { code, message, errorCode: 'IC0509' };
  // canister_inspect_message did not accept it.
  if (kind === 'reject' && code === REJECT_CODE.CANISTER_REJECT) return { code, message, errorCode: 'IC0516' };
  return rejectionOf(outcome);
}

export function noSuchCanister(principal: string): Rejection {
  return { code: REJECT_CODE.DESTINATION_INVALID, message: `Canister ${principal} not found`, errorCode: 'IC0301' };
}

/** Returns the rejection of a message that nobody is there to execute; undefined: somebody is. */
export function standingRefusal(
  canister: Pick<Canister, 'id' | 'principal' | 'module' | 'controllers'>,
  kind: 'call' | 'query',
  method: string,
  sender: Uint8Array,
): Rejection | undefined {
  const { module, principal } = canister;
  const code = REJECT_CODE.CANISTER_ERROR;
  if (module === undefined)
    return { code, message: `Canister ${principal} is empty: no code is installed`, errorCode: 'IC0537' };
  const exported = module.methods.get(method);
  const missing = (what: string): Rejection => ({
    code,
    message: `Canister ${principal} ${what}`,
    errorCode: 'IC0536',
  });
  const name = JSON.stringify(method.length > 80 ? `${method.slice(0, 80)}…` : method);
  if (exported === undefined || (isInternalMethod(method) && !isController(canister, sender)))
    return missing(`has no ${kind === 'call' ? 'update' : 'query'} method ${name}`);
  if (kind === 'query' && exported === 'update') return missing(`has no query method ${name}: it is an update method`);
  if (kind === 'call' && exported === 'composite_query')
    return missing(`has no update method ${name}: it is a composite query`);
  return undefined;
}

/** Returns true for a controller; the anonymous principal is nobody's here. */
export function isController({ controllers }: Pick<Canister, 'controllers'>, sender: Uint8Array): boolean {
  if (sameBytes(sender, ANONYMOUS)) return false;
  return controllers.some((controller) => sameBytes(controller, sender));
}
