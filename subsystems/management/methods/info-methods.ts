import type { ChangeJson } from '../candid-types.ts';
import { fromNat, toBlob, toNat, toPrincipalText } from '../candid-values.ts';
import type { ChangeDetails, ChangeOrigin, HistoryEntry } from '../change.ts';
import type { CanisterLogRecord, HostedCanister } from '../backend.ts';
import type { MethodContext, Methods } from '../method-context.ts';
import { REFUSE } from '../refusal.ts';
import { mayView } from '../settings.ts';
import { hashOf } from './settings-methods.ts';

const RANDOM_BYTES = 32;
/** A response has at most 2 MiB. */
const LOG_BYTES_MAX = 1_900_000;
const LOG_RECORD_BYTES = 24;

/** Methods that give information to canisters and users. */
export function infoMethods(
  context: MethodContext,
): Pick<
  Methods,
  | 'canister_info'
  | 'canister_metadata'
  | 'raw_rand'
  | 'fetch_canister_logs'
  | 'list_canisters'
  | 'node_metrics_history'
  | 'subnet_info'
> {
  return {
    async canister_info({ canister_id: id, num_requested_changes: requested }) {
      const canister = context.find(id);
      const count = requested === null ? 0n : toNat(requested);
      const history = await context.records.histories.read(canister, count > 1000n ? 1000 : Number(count));
      context.expectPresent(canister);
      return {
        total_num_changes: history.total,
        recent_changes: history.entries.map(changeJson),
        module_hash: canister.code === undefined ? null : toBlob(hashOf(canister.code.module.hash)),
        controllers: canister.controllers.map(toPrincipalText),
      };
    },

    canister_metadata({ canister_id: id, name }, call) {
      const canister = context.find(id);
      if (canister.code === undefined) throw REFUSE.empty(id);
      const section = canister.code.module.metadata.get(name);
      if (section === undefined)
        throw REFUSE.notOffered(
          `canister ${id} has no custom section icp:public ${shown(name)} or icp:private ${shown(name)}`,
        );
      if (!section.isPublic) context.expectControl(call, canister);
      return { value: toBlob(section.content) };
    },

    raw_rand: () => toBlob(context.random.bytes(RANDOM_BYTES)),

    fetch_canister_logs({ canister_id: id }, call) {
      const canister = context.find(id);
      if (!mayView(context.recordOf(canister).settings.logVisibility, call.sender))
        context.expectControl(call, canister, { admin: true });
      const records = newest(context.host.logs(canister)).map(({ index, timeNs, content }) => ({
        idx: index,
        timestamp_nanos: fromNat(timeNs),
        content: toBlob(content),
      }));
      return { canister_log_records: records };
    },

    list_canisters(_argument, call) {
      if (!call.isAdmin && !call.isTrusted)
        throw REFUSE.notAllowed('only the operator of this host may list its canisters');
      return { canisters: rangesOf(context.host.list()) };
    },

    node_metrics_history: () => [],
    subnet_info: () => ({ replica_version: context.hostVersion, registry_version: 0 }),
  };
}

/** Returns as many of the last records as a response holds. */
function newest(records: readonly CanisterLogRecord[]): readonly CanisterLogRecord[] {
  let bytes = 0;
  let first = records.length;
  while (first > 0) {
    bytes += (records[first - 1]?.content.length ?? 0) + LOG_RECORD_BYTES;
    if (bytes > LOG_BYTES_MAX) break;
    first--;
  }
  return records.slice(first);
}

/** Returns the ids as ranges, with neighbouring ids in one range. */
function rangesOf(canisters: readonly HostedCanister[]): { readonly start: string; readonly end: string }[] {
  const ranges: { start: string; end: string; last: bigint }[] = [];
  for (const { id } of canisters) {
    const number = new DataView(id.buffer, id.byteOffset).getBigUint64(0);
    const text = toPrincipalText(id);
    const range = ranges.at(-1);
    if (range !== undefined && range.last + 1n === number) Object.assign(range, { end: text, last: number });
    else ranges.push({ start: text, end: text, last: number });
  }
  return ranges.map(({ start, end }) => ({ start, end }));
}

function changeJson({ timeNs, version, origin, details }: HistoryEntry): ChangeJson {
  return {
    timestamp_nanos: fromNat(timeNs),
    canister_version: version,
    origin: originJson(origin),
    details: detailsJson(details),
  };
}

function originJson(origin: ChangeOrigin): ChangeJson['origin'] {
  const id = toPrincipalText(origin.id);
  if (origin.kind === 'user') return { from_user: { user_id: id } };
  const version = origin.version === undefined ? null : fromNat(origin.version);
  return { from_canister: { canister_id: id, canister_version: version } };
}

function detailsJson(details: ChangeDetails): ChangeJson['details'] {
  switch (details.kind) {
    case 'creation':
      return {
        creation: {
          controllers: details.controllers.map(toPrincipalText),
          environment_variables_hash: details.environmentHash === undefined ? null : toBlob(details.environmentHash),
        },
      };
    case 'codeUninstall':
      return { code_uninstall: null };
    case 'codeDeployment':
      return { code_deployment: { mode: { [details.mode]: null }, module_hash: toBlob(details.moduleHash) } };
    case 'loadSnapshot':
      return {
        load_snapshot: {
          from_canister_id: details.from === undefined ? null : toPrincipalText(details.from),
          snapshot_id: toBlob(details.snapshotId),
          canister_version: fromNat(details.version),
          taken_at_timestamp: fromNat(details.takenAtNs),
          source: details.isUploaded ? { metadata_upload: null } : { taken_from_canister: null },
        },
      };
    case 'controllersChange':
      return { controllers_change: { controllers: details.controllers.map(toPrincipalText) } };
  }
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}
