import { unlessAborted } from '../../../kernel/index.ts';
import type { InstallModeJson, NatJson, PrincipalJson } from '../candid-types.ts';
import { tagOf, toBlob, toBytes } from '../candid-values.ts';
import type { CodeChange, ModuleInfo } from '../../execution/index.ts';
import type { StepFault } from '../../ic/index.ts';
import type { HostedCanister } from '../backend.ts';
import type { Call, MethodContext, Methods } from '../method-context.ts';
import { assembleModule } from '../module-assembly.ts';
import { Refusal, REFUSE, refusalOf } from '../refusal.ts';
import { hashOf } from './settings-methods.ts';

/** Custom section whose presence says that a module takes over the heap of the one before it. */
const PERSISTENCE_SECTION = 'enhanced-orthogonal-persistence';

/** Methods that upload, install and remove code. */
export function codeMethods(
  context: MethodContext,
): Pick<
  Methods,
  'install_code' | 'install_chunked_code' | 'upload_chunk' | 'clear_chunk_store' | 'stored_chunks' | 'uninstall_code'
> {
  const ITSELF = { itself: true } as const;
  return {
    install_code(argument, call) {
      const { canister_id: target, mode, arg, sender_canister_version: senderVersion } = argument;
      return install(context, call, { target, mode, arg, senderVersion }, () => toBytes(argument.wasm_module));
    },

    install_chunked_code(argument, call) {
      const { target_canister: target, mode, arg, sender_canister_version: senderVersion } = argument;
      return install(context, call, { target, mode, arg, senderVersion }, () => {
        const store = context.controlled(call, argument.store_canister ?? target, ITSELF);
        const hashes = argument.chunk_hashes_list.map(({ hash }) => toBytes(hash));
        return assembleModule(context.recordOf(store).chunkStore, hashes, toBytes(argument.wasm_module_hash));
      });
    },

    upload_chunk({ canister_id: id, chunk }, call) {
      const canister = context.controlled(call, id, ITSELF);
      return { hash: toBlob(context.recordOf(canister).chunkStore.add(toBytes(chunk))) };
    },

    clear_chunk_store({ canister_id: id }, call) {
      context.recordOf(context.controlled(call, id, ITSELF)).chunkStore.clear();
    },

    stored_chunks({ canister_id: id }, call) {
      const { hashes } = context.recordOf(context.controlled(call, id, ITSELF)).chunkStore;
      return hashes.map((hash) => ({ hash: toBlob(hashOf(hash)) }));
    },

    uninstall_code({ canister_id: id, sender_canister_version: version }, call) {
      return context.change(call, id, { admin: true }, async (canister) => {
        await uninstall(context, call, canister, version);
      });
    },
  };
}

/** Empties a canister and its chunk store, and adds the change to its history. */
export async function uninstall(
  context: MethodContext,
  call: Call,
  canister: HostedCanister,
  senderVersion: NatJson | null,
): Promise<void> {
  const origin = context.originOf(call, senderVersion);
  await context.host.uninstall(canister);
  context.recordOf(canister).chunkStore.clear();
  context.enter(canister, origin, { kind: 'codeUninstall' });
}

interface Installation {
  readonly target: PrincipalJson;
  readonly mode: InstallModeJson;
  readonly arg: string;
  readonly senderVersion: NatJson | null;
}

function install(
  context: MethodContext,
  call: Call,
  { target, mode, arg, senderVersion }: Installation,
  moduleOf: () => Uint8Array | Promise<Uint8Array>,
): Promise<void> {
  return context.change(call, target, {}, async (canister, _record, deletion) => {
    const origin = context.originOf(call, senderVersion);
    const tag = tagOf(mode);
    if (tag === 'install' && canister.code !== undefined)
      throw new Refusal(5, 'IC0514', `canister ${target} is not empty: reinstall or upgrade it`);
    if (tag === 'upgrade' && canister.code === undefined) throw REFUSE.empty(target);
    const wasm = await unlessAborted(deletion, Promise.resolve(moduleOf()));
    const module = await unlessAborted(deletion, prepareModule(context, canister, wasm));
    const change = codeChange(mode, { from: canister.code?.module, to: module }, toBytes(arg), call.sender);
    const fault = await context.host.change(canister, { module, wasm }, change, deletion);
    if (fault !== undefined) throw refusalOfFault(fault);
    context.enter(canister, origin, { kind: 'codeDeployment', mode: change.mode, moduleHash: hashOf(module.hash) });
  });
}

/** The replica's error numbers for the faults of a hook. */
const FAULT_NUMBERS = {
  trap: 'IC0502',
  calledTrap: 'IC0503',
  noCallback: 'IC0513',
  limit: 'IC0522',
  outOfCycles: 'IC0207',
  unavailable: 'IC0201',
} as const satisfies Record<StepFault['kind'], string>;

/** Returns a refusal with the execution's message; a number is prepended if the message has none. */
function refusalOfFault({ kind, code, message }: StepFault): Refusal {
  const [, number = FAULT_NUMBERS[kind], rest = message] = /^(IC\d{4}): (.*)$/s.exec(message) ?? [];
  return new Refusal(code, number, rest);
}

/** Checks and compiles a module for a canister. */
async function prepareModule(context: MethodContext, canister: HostedCanister, wasm: Uint8Array): Promise<ModuleInfo> {
  let module: ModuleInfo;
  try {
    module = await context.host.prepare(wasm);
  } catch (error) {
    throw refusalOf(error, 5, 'IC0505');
  }
  context.expectPresent(canister);
  return module;
}

/**
 * Returns the change of code that the call asks for; implements the rules of orthogonal persistence
 * (docs/execution-rules.md, "Changes of code").
 */
function codeChange(
  mode: InstallModeJson,
  { from, to }: { readonly from: ModuleInfo | undefined; readonly to: ModuleInfo },
  argument: Uint8Array,
  caller: Uint8Array,
): CodeChange {
  const tag = tagOf(mode);
  if (tag !== 'upgrade') return { mode: tag, argument, caller };
  const options = mode.upgrade ?? { skip_pre_upgrade: null, wasm_memory_persistence: null };
  const persistence = options.wasm_memory_persistence;
  const keepsHeap = persistence !== null && ('keep' in persistence || 'Keep' in persistence);
  if (persistence === null && from?.metadata.has(PERSISTENCE_SECTION) === true)
    throw REFUSE.wrongState(
      'the installed module keeps its heap across upgrades: the upgrade has to say wasm_memory_persistence = opt keep (or replace, which drops the heap)',
    );
  if (keepsHeap && !to.metadata.has(PERSISTENCE_SECTION))
    throw REFUSE.wrongState(
      `wasm_memory_persistence is keep, but the new module cannot take over a heap: it has no section icp:private ${PERSISTENCE_SECTION}`,
    );
  if (keepsHeap && from !== undefined && from.pointerWidth !== to.pointerWidth)
    throw REFUSE.wrongState(
      `wasm_memory_persistence is keep, but the heap has ${from.pointerWidth}-bit addresses and the new module ${to.pointerWidth}-bit ones`,
    );
  return { mode: 'upgrade', keepsHeap, skipsPreUpgrade: options.skip_pre_upgrade === true, argument, caller };
}
