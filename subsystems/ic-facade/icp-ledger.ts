/** The ledger of ICP, `ryjl3-tyaaa-aaaaa-aaaba-cai`, and what the last transfers were worth. */
import { principalFromText } from '../ic/index.ts';
import { ICP_LEDGER_DID } from './interfaces.ts';
import { answer, type FacadeMethod, type ServedCanisterSpec } from './served-canister.ts';
import { type BlockNumbers, type Token, TOKEN_READS, tokenMethods } from './tokens.ts';

const ICP: Token = { name: 'Internet Computer', symbol: 'ICP', decimals: 8, fee: 10_000n, balance: 10n ** 18n };
/** Transfers that the minting canister may be told of. */
const TRANSFERS_MAX = 1000;

/** Amounts of the last transfers by their blocks, for whoever notifies the minting canister of one. */
export class IcpTransfers {
  readonly #blocks: BlockNumbers;
  readonly #amounts = new Map<number, bigint>();

  constructor(blocks: BlockNumbers) {
    this.#blocks = blocks;
  }

  /** Returns the block of a transfer of that many e8s. */
  add(e8s: bigint): number {
    const block = this.#blocks.take();
    this.#amounts.set(block, e8s);
    const [oldest] = this.#amounts.keys();
    if (this.#amounts.size > TRANSFERS_MAX && oldest !== undefined) this.#amounts.delete(oldest);
    return block;
  }

  /** Returns the e8s of a block, and forgets it: each is used once. Undefined: there is no such transfer. */
  take(block: number): bigint | undefined {
    const amount = this.#amounts.get(block);
    this.#amounts.delete(block);
    return amount;
  }
}

interface LegacyTransfer {
  readonly amount: { readonly e8s: number | string };
}

export function icpLedger(transfers: IcpTransfers): ServedCanisterSpec {
  const transfer: FacadeMethod = ({ amount }: LegacyTransfer) =>
    answer(() => ({ Ok: transfers.add(BigInt(amount.e8s)) }));
  return {
    id: principalFromText('ryjl3-tyaaa-aaaaa-aaaba-cai'),
    did: ICP_LEDGER_DID,
    methods: {
      ...tokenMethods(ICP, (e8s) => transfers.add(e8s)),
      transfer,
      account_balance: () => answer(() => ({ e8s: ICP.balance.toString() })),
    },
    forActors: new Set([...TOKEN_READS, 'account_balance']),
  };
}
