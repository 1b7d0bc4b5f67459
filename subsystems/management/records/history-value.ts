import type { ChangeDetails, ChangeOrigin, HistoryEntry } from '../change.ts';
import { type RecordReader, RecordWriter } from './record-bytes.ts';

/** Numbers are positions here: new ones come last. */
const ORIGINS = ['user', 'canister'] as const;
const DETAILS = ['creation', 'codeUninstall', 'codeDeployment', 'loadSnapshot', 'controllersChange'] as const;
const MODES = ['install', 'reinstall', 'upgrade'] as const;

export function writeHistoryEntry({ timeNs, version, origin, details }: HistoryEntry): Uint8Array {
  const out = new RecordWriter().natural(timeNs).natural(version);
  out.byte(ORIGINS.indexOf(origin.kind)).bytes(origin.id);
  if (origin.kind === 'canister') out.optional(origin.version, (present) => out.natural(present));
  writeDetails(out, details);
  return out.written();
}

export function readHistoryEntry(value: RecordReader): HistoryEntry {
  const timeNs = value.natural();
  const version = value.number();
  const origin = readOrigin(value);
  const details = readDetails(value);
  value.end();
  return { timeNs, version, origin, details };
}

function readOrigin(value: RecordReader): ChangeOrigin {
  const kind = value.oneOf(ORIGINS);
  const id = value.bytes();
  return kind === 'user' ? { kind, id } : { kind, id, version: value.optional(() => value.natural()) };
}

function writeDetails(out: RecordWriter, details: ChangeDetails): void {
  out.byte(DETAILS.indexOf(details.kind));
  switch (details.kind) {
    case 'creation':
      out.list(details.controllers, (controller) => out.bytes(controller));
      out.optional(details.environmentHash, (hash) => out.bytes(hash));
      return;
    case 'codeUninstall':
      return;
    case 'codeDeployment':
      out.byte(MODES.indexOf(details.mode)).bytes(details.moduleHash);
      return;
    case 'loadSnapshot':
      out.optional(details.from, (from) => out.bytes(from));
      out.bytes(details.snapshotId).natural(details.version).natural(details.takenAtNs).truth(details.isUploaded);
      return;
    case 'controllersChange':
      out.list(details.controllers, (controller) => out.bytes(controller));
  }
}

function readDetails(value: RecordReader): ChangeDetails {
  const kind = value.oneOf(DETAILS);
  switch (kind) {
    case 'creation':
      return {
        kind,
        controllers: value.list(() => value.bytes()),
        environmentHash: value.optional(() => value.bytes()),
      };
    case 'codeUninstall':
      return { kind };
    case 'codeDeployment':
      return { kind, mode: value.oneOf(MODES), moduleHash: value.bytes() };
    case 'loadSnapshot':
      return {
        kind,
        from: value.optional(() => value.bytes()),
        snapshotId: value.bytes(),
        version: value.natural(),
        takenAtNs: value.natural(),
        isUploaded: value.truth(),
      };
    case 'controllersChange':
      return { kind, controllers: value.list(() => value.bytes()) };
  }
}
