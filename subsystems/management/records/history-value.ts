import type { ChangeDetails, ChangeOrigin, HistoryEntry } from '../change.ts';
import { type RecordReader, RecordWriter } from '../../bytes/index.ts';

/** Positions in these lists are stored numbers: new values come last. */
const ORIGINS = ['user', 'canister'] as const;
const DETAILS = ['creation', 'codeUninstall', 'codeDeployment', 'loadSnapshot', 'controllersChange'] as const;
const MODES = ['install', 'reinstall', 'upgrade'] as const;

export function writeHistoryEntry({ timeNs, version, origin, details }: HistoryEntry): Uint8Array {
  const out = new RecordWriter();
  out.leb128(timeNs);
  out.leb128(version);
  out.u8(ORIGINS.indexOf(origin.kind));
  out.data(origin.id);
  if (origin.kind === 'canister') out.optional(origin.version, (present) => out.leb128(present));
  writeDetails(out, details);
  return out.view();
}

export function readHistoryEntry(value: RecordReader): HistoryEntry {
  const timeNs = value.leb128();
  const version = value.leb128Number();
  const origin = readOrigin(value);
  const details = readDetails(value);
  value.close();
  return { timeNs, version, origin, details };
}

function readOrigin(value: RecordReader): ChangeOrigin {
  const kind = value.oneOf(ORIGINS);
  const id = value.data().slice();
  return kind === 'user' ? { kind, id } : { kind, id, version: value.optional(() => value.leb128()) };
}

function writeDetails(out: RecordWriter, details: ChangeDetails): void {
  out.u8(DETAILS.indexOf(details.kind));
  switch (details.kind) {
    case 'creation':
      out.list(details.controllers, (controller) => out.data(controller));
      out.optional(details.environmentHash, (hash) => out.data(hash));
      return;
    case 'codeUninstall':
      return;
    case 'codeDeployment':
      out.u8(MODES.indexOf(details.mode));
      out.data(details.moduleHash);
      return;
    case 'loadSnapshot':
      out.optional(details.from, (from) => out.data(from));
      out.data(details.snapshotId);
      out.leb128(details.version);
      out.leb128(details.takenAtNs);
      out.truth(details.isUploaded);
      return;
    case 'controllersChange':
      out.list(details.controllers, (controller) => out.data(controller));
  }
}

function readDetails(value: RecordReader): ChangeDetails {
  const kind = value.oneOf(DETAILS);
  switch (kind) {
    case 'creation':
      return {
        kind,
        controllers: value.list(() => value.data().slice()),
        environmentHash: value.optional(() => value.data().slice()),
      };
    case 'codeUninstall':
      return { kind };
    case 'codeDeployment':
      return { kind, mode: value.oneOf(MODES), moduleHash: value.data().slice() };
    case 'loadSnapshot':
      return {
        kind,
        from: value.optional(() => value.data().slice()),
        snapshotId: value.data().slice(),
        version: value.leb128(),
        takenAtNs: value.leb128(),
        isUploaded: value.truth(),
      };
    case 'controllersChange':
      return { kind, controllers: value.list(() => value.data().slice()) };
  }
}
