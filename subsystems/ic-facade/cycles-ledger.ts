/** The cycles ledger, `um5iw-rqaaa-aaaaq-qaaba-cai`. */
import { principalFromText, REJECT_CODE } from '../ic/index.ts';
import type { ManagedForUsers } from './creations.ts';
import { CYCLES_LEDGER_DID } from './interfaces.ts';
import { answer, type FacadeMethod, type Prepared, type ServedCanisterSpec } from './served-canister.ts';
import { type BlockNumbers, type Token, TOKEN_READS, tokenMethods } from './tokens.ts';

export const CYCLES: Token = {
  name: 'Trillion Cycles',
  symbol: 'TCYCLES',
  decimals: 12,
  fee: 100_000_000n,
  balance: 10n ** 30n,
};

interface CreateArgument {
  readonly amount: number | string;
  readonly creation_args: { readonly settings: unknown } | null;
}

interface WithdrawArgument {
  readonly amount: number | string;
  readonly to: string;
}

export function cyclesLedger(managed: ManagedForUsers, blocks: BlockNumbers): ServedCanisterSpec {
  const balance = CYCLES.balance.toString();
  const create: FacadeMethod = ({ amount, creation_args: creation }: CreateArgument, { user }) =>
    user === undefined
      ? forUsers('create_canister')
      : managed.create(
          user,
          { cycles: String(amount), settings: creation?.settings ?? null },
          (id) => ({ Ok: { block_id: blocks.take(), canister_id: id } }),
          (error) => ({ Err: { FailedToCreate: { error, refund_block: null, fee_block: null } } }),
        );
  const withdraw: FacadeMethod = ({ amount, to }: WithdrawArgument, { user }) =>
    user === undefined
      ? forUsers('withdraw')
      : managed.topUp(
          user,
          { canisterId: to, cycles: String(amount) },
          () => ({ Ok: blocks.take() }),
          (reason) => ({
            Err: {
              FailedToWithdraw: {
                fee_block: null,
                rejection_code: { DestinationInvalid: null },
                rejection_reason: reason,
              },
            },
          }),
        );
  const deposit: FacadeMethod = (_argument: unknown, { user }) => {
    if (user === undefined) return answer(() => ({ balance, block_index: blocks.take() }));
    return refused('IC0406: only actors have cycles to deposit', REJECT_CODE.CANISTER_REJECT);
  };
  return {
    id: principalFromText('um5iw-rqaaa-aaaaq-qaaba-cai'),
    did: CYCLES_LEDGER_DID,
    methods: { ...tokenMethods(CYCLES, () => blocks.take()), create_canister: create, withdraw, deposit },
    forActors: new Set([...TOKEN_READS, 'deposit']),
  };
}

function forUsers(method: string): Prepared {
  return refused(`IC0406: ${method} is for users`, REJECT_CODE.CANISTER_REJECT);
}

function refused(message: string, code: 4): Prepared {
  return { isChange: false, refusal: { kind: 'reject', code, message }, run: () => undefined };
}
