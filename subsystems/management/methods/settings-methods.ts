import type { MemoryMetricsJson, NatJson, PrincipalJson, ResultOf, SettingsJson } from '../candid-types.ts';
import { fromNat, toBlob, toNat, toPrincipal, toPrincipalText } from '../candid-values.ts';
import { bytesOfHistory } from '../history.ts';
import type { HostedCanister } from '../backend.ts';
import type { Call, MethodContext, Methods } from '../method-context.ts';
import { REFUSE, refusalOf } from '../refusal.ts';
import {
  controllersOfAnonymous,
  hashVariables,
  isOfAnonymous,
  mayView,
  NO_CHANGE,
  readSettings,
  settingsJson,
} from '../settings.ts';

/** Ids of canisters: 8 bytes of a number, then 01 01. */
const ID_BYTES = 10;

/** Methods that create canisters and change their settings. */
export function settingsMethods(
  context: MethodContext,
): Pick<
  Methods,
  | 'create_canister'
  | 'provisional_create_canister_with_cycles'
  | 'update_settings'
  | 'canister_status'
  | 'canister_metrics'
  | 'deposit_cycles'
  | 'provisional_top_up_canister'
> {
  return {
    create_canister(argument, call) {
      // If no cycles are attached, the canister gets the host's starting balance: without cycles it could not be
      // installed.
      const canister = create(context, call, argument, call.cycles === 0n ? undefined : call.cycles, undefined);
      call.cyclesTaken = call.cycles;
      return { canister_id: toPrincipalText(canister.id) };
    },

    provisional_create_canister_with_cycles(argument, call) {
      const { amount, specified_id: id } = argument;
      const balance = amount === null ? undefined : cyclesOf(amount);
      const canister = create(context, call, argument, balance, id === null ? undefined : specifiedId(context, id));
      return { canister_id: toPrincipalText(canister.id) };
    },

    update_settings({ canister_id: id, settings, sender_canister_version: version }, call) {
      return context.change(call, id, { admin: true }, async (canister, record) => {
        const { own, enforced } = changeOf(settings, isOfAnonymous(canister.controllers));
        const origin = context.originOf(call, version);
        context.host.configure(canister, enforced);
        record.changeSettings(own);
        if (enforced.controllers === undefined) return;
        context.enter(canister, origin, { kind: 'controllersChange', controllers: enforced.controllers });
      });
    },

    async canister_status({ canister_id: id }, call) {
      const canister = context.find(id);
      if (!mayView(context.recordOf(canister).settings.statusVisibility, call.sender))
        context.expectControl(call, canister, { admin: true, itself: true });
      const historyBytes = bytesOfHistory(await context.records.histories.read(canister));
      context.expectPresent(canister);
      return statusJson(context, canister, historyBytes);
    },

    canister_metrics({ canister_id: id }, call) {
      return metricsJson(context.controlled(call, id, { admin: true }));
    },

    async deposit_cycles({ canister_id: id }, call) {
      await context.host.addCycles(context.find(id), call.cycles);
      call.cyclesTaken = call.cycles;
    },

    async provisional_top_up_canister({ canister_id: id, amount }) {
      await context.host.addCycles(context.find(id), cyclesOf(amount));
    },
  };
}

function create(
  context: MethodContext,
  call: Call,
  argument: { readonly settings: SettingsJson | null; readonly sender_canister_version: NatJson | null },
  balance: bigint | undefined,
  id: Uint8Array | undefined,
): HostedCanister {
  const { own, enforced } =
    argument.settings === null ? NO_CHANGE : changeOf(argument.settings, isOfAnonymous([call.sender]));
  const origin = context.originOf(call, argument.sender_canister_version);
  const controllers = enforced.controllers ?? [call.sender];
  let canister: HostedCanister;
  try {
    const isCertified = call.certifiesCreated;
    canister = context.host.create({ id, balance, isCertified, settings: { ...enforced, controllers } });
  } catch (error) {
    throw id === undefined ? refusalOf(error, 1, 'IC0102') : refusalOf(error, 2, 'IC0205');
  }
  context.recordOf(canister).changeSettings(own);
  const environmentHash = hashVariables(enforced.environment);
  context.enter(canister, origin, { kind: 'creation', controllers, environmentHash });
  return canister;
}

function changeOf(settings: SettingsJson, isAnonymous: boolean): ReturnType<typeof readSettings> {
  const change = readSettings(settings);
  const { controllers } = change.enforced;
  if (!isAnonymous || controllers === undefined) return change;
  return { ...change, enforced: { ...change.enforced, controllers: controllersOfAnonymous(controllers) } };
}

function specifiedId(context: MethodContext, text: PrincipalJson): Uint8Array {
  const id = toPrincipal(text);
  if (id.length !== ID_BYTES || id[8] !== 1 || id[9] !== 1)
    throw REFUSE.badArgument(`specified_id is ${text}: canister ids here have ${ID_BYTES} bytes and end in 01 01`);
  if (context.host.find(id) !== undefined) throw REFUSE.idInUse(text);
  return id;
}

function cyclesOf(amount: NatJson): bigint {
  const cycles = toNat(amount);
  if (cycles >= 2n ** 128n) throw REFUSE.badArgument(`the amount is ${cycles}: cycles have at most 128 bits`);
  return cycles;
}

function statusJson(
  context: MethodContext,
  canister: HostedCanister,
  historyBytes: number,
): ResultOf<'canister_status'> {
  const metrics = memoryMetrics(context, canister, historyBytes);
  const { usage } = canister;
  return {
    status: { [canister.status]: null },
    ready_for_migration: canister.status === 'stopped',
    version: canister.version,
    settings: settingsJson(canister, context.recordOf(canister).settings),
    module_hash: canister.code === undefined ? null : toBlob(hashOf(canister.code.module.hash)),
    memory_size: sumOf(metrics),
    memory_metrics: metrics,
    cycles: fromNat(canister.balance),
    reserved_cycles: 0,
    idle_cycles_burned_per_day: 0,
    query_stats: {
      num_calls_total: usage.queryCalls,
      num_instructions_total: usage.queryInstructions,
      request_payload_bytes_total: usage.queryRequestBytes,
      response_payload_bytes_total: usage.queryResponseBytes,
    },
  };
}

function metricsJson({ usage }: HostedCanister): ResultOf<'canister_metrics'> {
  return {
    cycles_consumed: {
      memory: 0,
      compute_allocation: 0,
      ingress_induction: 0,
      instructions: fromNat(usage.cyclesCharged),
      request_and_response_transmission: 0,
      uninstall: 0,
      canister_creation: 0,
      http_outcalls: 0,
      burned_cycles: fromNat(usage.cyclesBurned),
    },
  };
}

function memoryMetrics(context: MethodContext, canister: HostedCanister, historyBytes: number): MemoryMetricsJson {
  const record = context.recordOf(canister);
  let sectionBytes = 0;
  for (const [name, { content }] of canister.code?.module.metadata ?? []) {
    sectionBytes += Buffer.byteLength(name) + content.length;
  }
  return {
    wasm_memory_size: canister.heapBytes,
    stable_memory_size: canister.stableBytes,
    // Globals are kept with the heap.
    global_memory_size: 0,
    wasm_binary_size: canister.code?.wasm.length ?? 0,
    custom_sections_size: sectionBytes,
    canister_history_size: historyBytes,
    wasm_chunk_store_size: record.chunkStore.bytes,
    snapshots_size: record.snapshots.bytes,
    log_memory_store_size: context.host.logs(canister).reduce((sum, { content }) => sum + content.length, 0),
  };
}

function sumOf(metrics: MemoryMetricsJson): number {
  const sizes: readonly number[] = Object.values(metrics);
  return sizes.reduce((sum, bytes) => sum + bytes, 0);
}

export function hashOf(hex: string): Uint8Array {
  return Buffer.from(hex, 'hex');
}
