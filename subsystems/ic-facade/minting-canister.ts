/** The cycles minting canister, `rkp4c-7iaaa-aaaaa-aaaca-cai`: one ICP is worth a trillion cycles. */
import type { Clock } from '../../kernel/index.ts';
import { principalFromText, principalToText } from '../ic/index.ts';
import type { ManagedForUsers } from './creations.ts';
import { CYCLES } from './cycles-ledger.ts';
import type { IcpTransfers } from './icp-ledger.ts';
import { MINTING_DID } from './interfaces.ts';
import { answer, type FacadeMethod, type ServedCanisterSpec } from './served-canister.ts';
import type { BlockNumbers } from './tokens.ts';

const XDR_PERMYRIAD_PER_ICP = 10_000;
/** A trillion cycles are one XDR, 10^8 e8s are one ICP. */
const CYCLES_PER_E8S = 10_000n;

interface NotifyArgument {
  readonly block_index: number | string;
}

export function mintingCanister({
  managed,
  transfers,
  blocks,
  clock,
}: {
  readonly managed: ManagedForUsers;
  readonly transfers: IcpTransfers;
  readonly blocks: BlockNumbers;
  readonly clock: Pick<Clock, 'nowMs'>;
}): ServedCanisterSpec {
  const subnets: FacadeMethod = (_argument: unknown, { user }) =>
    answer(() => (user === undefined ? [] : [principalToText(user.subnetId)]));
  const rate: FacadeMethod = () =>
    answer(() => ({
      data: { timestamp_seconds: Math.floor(clock.nowMs() / 1000), xdr_permyriad_per_icp: XDR_PERMYRIAD_PER_ICP },
      hash_tree: '',
      certificate: '',
    }));
  const mint: FacadeMethod = ({ block_index: block }: NotifyArgument) =>
    answer(() => {
      const e8s = transfers.take(Number(block));
      if (e8s === undefined) return { Err: { InvalidTransaction: noTransfer(block) } };
      const minted = (e8s * CYCLES_PER_E8S).toString();
      return { Ok: { balance: CYCLES.balance.toString(), block_index: blocks.take(), minted } };
    });
  const create: FacadeMethod = async (argument: NotifyArgument & { readonly settings: unknown }, { user }) => {
    const e8s = transfers.take(Number(argument.block_index));
    if (user === undefined || e8s === undefined)
      return answer(() => ({ Err: { InvalidTransaction: noTransfer(argument.block_index) } }));
    return await managed.create(
      user,
      { cycles: (e8s * CYCLES_PER_E8S).toString(), settings: argument.settings },
      (id) => ({ Ok: id }),
      (reason) => ({ Err: { Refunded: { reason, block_index: null } } }),
    );
  };
  return {
    id: principalFromText('rkp4c-7iaaa-aaaaa-aaaca-cai'),
    did: MINTING_DID,
    methods: {
      get_default_subnets: subnets,
      get_icp_xdr_conversion_rate: rate,
      notify_mint_cycles: mint,
      notify_create_canister: create,
    },
    forActors: new Set(['get_icp_xdr_conversion_rate']),
  };
}

function noTransfer(block: number | string): string {
  return `there is no transfer of ICP in block ${block} that was not used already, since the server started`;
}
