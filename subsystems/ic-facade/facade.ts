import type { Clock } from '../../kernel/index.ts';
import type { Codec } from '../codec/index.ts';
import { hexOf } from '../ic/index.ts';
import type {
  Management,
  ManagementAnswer,
  ManagementBackend,
  ManagementRequest,
  UserCall,
} from '../management/index.ts';
import { ManagedForUsers } from './creations.ts';
import { cyclesLedger } from './cycles-ledger.ts';
import { icpLedger, IcpTransfers } from './icp-ledger.ts';
import type { FacadeRequest, IcFacade } from './index.ts';
import { mintingCanister } from './minting-canister.ts';
import { ServedCanister, type ServedCanisterSpec } from './served-canister.ts';
import { BlockNumbers } from './tokens.ts';

interface FacadeNeeds {
  readonly host: Pick<ManagementBackend, 'find' | 'serve'>;
  readonly management: Pick<Management, 'readUserCall'>;
  readonly codec: Pick<Codec, 'parseInterface'>;
  readonly clock: Pick<Clock, 'nowMs'>;
}

/** The canisters that the host answers for; their interfaces are parsed at the first call. */
export class Facade implements IcFacade {
  readonly #needs: FacadeNeeds;
  readonly #specs: ReadonlyMap<string, ServedCanisterSpec>;
  readonly #canisters = new Map<string, ServedCanister>();

  constructor(needs: FacadeNeeds) {
    this.#needs = needs;
    const { management, codec, clock } = needs;
    const managed = new ManagedForUsers(management, codec);
    const blocks = new BlockNumbers();
    const transfers = new IcpTransfers(blocks);
    const specs = [
      cyclesLedger(managed, blocks),
      icpLedger(transfers),
      mintingCanister({ managed, transfers, blocks, clock }),
    ];
    this.#specs = new Map(specs.map((spec) => [hexOf(spec.id), spec]));
  }

  /** Takes calls of actors; called once, before anything starts. */
  open(): void {
    for (const [idHex, { id }] of this.#specs)
      this.#needs.host.serve?.(id, { call: (request) => this.#call(idHex, request) });
  }

  serves(canisterId: Uint8Array): boolean {
    return this.#specs.has(hexOf(canisterId)) && this.#needs.host.find(canisterId) === undefined;
  }

  async readUserCall(request: FacadeRequest): Promise<UserCall> {
    return await this.#canisterOf(hexOf(request.canisterId)).readUserCall(request);
  }

  #call(idHex: string, request: ManagementRequest): Promise<ManagementAnswer> {
    return this.#canisterOf(idHex).call(request);
  }

  #canisterOf(idHex: string): ServedCanister {
    const known = this.#canisters.get(idHex);
    if (known !== undefined) return known;
    const spec = this.#specs.get(idHex);
    if (spec === undefined) throw new Error(`the facade has no canister ${idHex}`);
    const canister = new ServedCanister(spec, this.#needs.codec);
    this.#canisters.set(idHex, canister);
    return canister;
  }
}
